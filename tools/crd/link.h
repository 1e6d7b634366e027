// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The connection to crrun: made again whenever it is lost. Tells silence, behind which the ranks of this node
 * may have been started elsewhere, from the death of crrun, in which nobody does that.
 */
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <asio/steady_timer.hpp>

#include "crd/node.h"
#include "job/reach.h"
#include "job/transport.h"

namespace reprise::crd {

struct LinkEvents {
  std::function<void()> connected;          ///< say Hello
  std::function<void(job::Down)> down;
  std::function<void(bool stand)> fence;    ///< silence: the ranks must stand still (true), or may go on
  std::function<void(job::Up&)> heartbeat;  ///< fill it in
};

class Link {
 public:
  Link(Node& node, LinkEvents events);
  void start();
  void send(const job::Up& up);
  /** crrun has said that this node counts. */
  void welcomed();
  bool fenced() const { return fenced_; }
  bool connected() const { return connected_; }

 private:
  using Clock = std::chrono::steady_clock;
  void look();
  void found(job::Reach reach, const std::string& endpoint);
  void beat();
  void judge();
  std::chrono::milliseconds heartbeat() const;
  std::chrono::milliseconds lost_after() const;

  Node& node_;
  LinkEvents events_;
  job::Client client_;
  asio::steady_timer look_timer_, beat_timer_;
  bool connected_ = false, connecting_ = false, looking_ = false, fenced_ = false;
  bool crrun_dead_ = false;     ///< its address refused us: it has died, its host lives
  Clock::time_point heard_ = Clock::now(), connect_began_{}, last_beat_{};
};

}  // namespace reprise::crd
