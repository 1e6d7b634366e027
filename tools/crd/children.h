// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The connections from the daemons below this one. Their messages go up, joined where possible; crrun's messages go
 * down to them.
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
  std::function<void(const job::Up&)> up;  ///< send this to crrun unchanged
  std::function<void()> beat;              ///< heartbeats from below have waited too long: send the daemon's own heartbeat
                                           ///< now
};

class Children {
 public:
  Children(Node& node, ChildrenEvents events);
  /** The part of Hello that offers this daemon as a parent; without endpoints it cannot be reached. */
  job::Relaying offer() const;
  /** Handle a message of this daemon. @return what to send now, in this order */
  std::vector<job::Up> own(const job::Up& up);
  void pass(const job::Down& down);
  /**
   * Messages of the children do not reach crrun any more: close their connections. @return the messages that wait to be
   * sent
   */
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
