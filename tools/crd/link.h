// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The connection to crrun, made again whenever it is lost, and the lease under which the ranks of this node run: crrun
 * answers each heartbeat, and they stop when the newest one that was answered was sent too long ago. Tells silence,
 * behind which they may have been started elsewhere, from the death of crrun, in which nobody does that.
 *
 * A daemon that was given a parent reaches crrun through it at first. When the parent is not there, ends, or brings no
 * answers, it is left for good, in time for the lease; what may have been lost with it is said again.
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
  std::function<void()> lost;               ///< what goes up by this connection does not arrive any more
};

class Link {
 public:
  Link(Node& node, LinkEvents events);
  void start();
  void send(const job::Up& up);
  /** What others have said, who say it again themselves where need be. */
  void forward(const job::Up& up);
  /** A heartbeat out of turn. */
  void beat_now();
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
  job::ClientEvents client_events(bool of_parent);
  job::Client& way() { return by_parent_ ? *parent_ : client_; }
  void leave_parent(const std::string& why);
  void watch_parent();
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
  std::unique_ptr<job::Client> parent_;  ///< none: this daemon never had one
  asio::steady_timer beat_timer_, lease_timer_, parent_timer_;
  std::shared_ptr<void> tried_;  ///< the connection that found crrun's address, until we are connected
  bool connected_ = false, connecting_ = false, looking_ = false, fenced_ = false;
  bool greeted_ = false;        ///< over this connection crrun has welcomed us
  bool crrun_dead_ = false;     ///< its address refused us: it has died, its host lives
  Clock::time_point heard_ = Clock::now(), connect_began_{};
  LeaseClock::time_point lease_{};        ///< when the newest thing that was answered was sent
  LeaseClock::time_point hello_sent_{};
  struct Beat {
    std::uint64_t unix_ns;
    LeaseClock::time_point sent;
    std::uint64_t said;  ///< number of the first message of the journal after it
  };
  std::deque<Beat> unanswered_;  ///< heartbeats, the oldest first

  bool by_parent_ = false;       ///< the way to crrun is the parent's
  LeaseClock::time_point parent_since_{};
  std::uint64_t seen_ = 0;       ///< Down.sequence of what came last
  bool keeps_ = false;           ///< what is sent, until crrun has welcomed us over a connection of our own
  bool resent_ = false;          ///< over this connection
  std::deque<job::Up> journal_;  ///< sent by way of the parent, not known to have reached crrun
  std::uint64_t journal_begin_ = 0;  ///< number of its first message
};

}  // namespace reprise::crd
