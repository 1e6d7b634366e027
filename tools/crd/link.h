// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The connection to crrun, made again whenever it is lost, and the lease under which the ranks of this node run: crrun
 * answers each heartbeat, and they stop when the newest one that was answered was sent too long ago. Tells silence,
 * behind which they may have been started elsewhere, from the death of crrun, in which nobody does that.
 */
#include <chrono>
#include <cstdint>
#include <deque>
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
  /** crrun has answered our Hello: this node counts, as of then. */
  void welcomed();
  /** crrun has answered the heartbeat that was sent at @p unix_ns: this node counted after that. */
  void answered(std::uint64_t unix_ns);
  /** This node has nothing any more that could stand still. */
  void forget();
  /** Its ranks must stand still, and nothing that crrun has said before it answers may be done. */
  bool fenced() const { return fenced_; }
  bool connected() const { return connected_; }

 private:
  using Clock = std::chrono::steady_clock;
  /** Runs on while the machine sleeps: crrun does not sleep with it. */
  struct LeaseClock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<LeaseClock>;
    static constexpr bool is_steady = true;
    static time_point now();
  };
  void look();
  void found(job::Reach reach, const std::string& endpoint);
  void beat();
  void judge();
  void renew(LeaseClock::time_point sent);
  std::chrono::milliseconds heartbeat() const;
  std::chrono::milliseconds lost_after() const;

  Node& node_;
  LinkEvents events_;
  job::Client client_;
  asio::steady_timer beat_timer_, lease_timer_;
  std::shared_ptr<void> tried_;  ///< the connection that found crrun's address, until we are connected
  bool connected_ = false, connecting_ = false, looking_ = false, fenced_ = false;
  bool greeted_ = false;        ///< over this connection crrun has welcomed us
  bool crrun_dead_ = false;     ///< its address refused us: it has died, its host lives
  Clock::time_point heard_ = Clock::now(), connect_began_{};
  LeaseClock::time_point lease_{};        ///< when the newest thing that was answered was sent
  LeaseClock::time_point hello_sent_{};
  std::deque<std::pair<std::uint64_t, LeaseClock::time_point>> unanswered_;  ///< heartbeats, the oldest first
};

}  // namespace reprise::crd
