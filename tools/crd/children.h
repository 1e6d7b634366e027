// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Of a daemon that has others below it: the connections from these. What they say goes up, joined where it can be, and what
 * comes from crrun goes down to them.
 */
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <asio/steady_timer.hpp>

#include "crd/node.h"
#include "job/relay.h"
#include "job/transport.h"

namespace reprise::crd {

struct ChildrenEvents {
  std::function<void(const job::Up&)> up;  ///< to be sent to crrun as it is
  std::function<void()> beat;              ///< heartbeats from below have waited long enough for one of our own
};

class Children {
 public:
  Children(Node& node, ChildrenEvents events);
  /** For our Hello; without endpoints nobody can reach us. */
  job::Relaying offer() const;
  /** A message of our own. @return what to send now, in this order */
  std::vector<job::Up> own(const job::Up& up);
  void pass(const job::Down& down);
  /** What has come up does not reach crrun any more by this way: they are left to themselves. @return what waits to be sent */
  std::vector<job::Up> end();
  bool any() const { return !children_.empty(); }

 private:
  struct Child {
    job::Peer peer;
    std::string instance;
  };
  void said(const job::Peer& peer, const job::Up& up);
  void gone(const job::Peer& peer);
  void tick();

  Node& node_;
  ChildrenEvents events_;
  job::KeyPair keys_;
  job::Relay relay_;
  std::map<std::uint32_t, Child> children_;
  bool ended_ = false;
  asio::steady_timer timer_;
  job::Server server_;
};

}  // namespace reprise::crd
