// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The connection to crrun, made again whenever it is lost, and the time until which the ranks of this node may run.
 * crrun answers each heartbeat. The ranks may run for some time after the newest answered heartbeat was sent. The link
 * distinguishes silence from the death of crrun: during silence crrun may restart the ranks elsewhere; a dead crrun
 * cannot, so the time is prolonged.
 *
 * A daemon with a parent first reaches crrun through the parent. When the parent is absent, ends or delivers no answers,
 * the daemon leaves it for good, early enough for the lease. On every new connection, Hello and the channel
 * (job/channel.h) settle what must be sent again.
 */
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include <asio/steady_timer.hpp>

#include "crd/node.h"
#include "job/channel.h"
#include "job/reach.h"
#include "job/transport.h"

namespace reprise::crd {

/** Also counts while the machine sleeps (CLOCK_BOOTTIME): crrun's host does not sleep with it. */
struct LeaseClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<LeaseClock>;
  static constexpr bool is_steady = true;
  static time_point now();
};

struct LinkEvents {
  std::function<void()> connected;          ///< send Hello
  std::function<void(job::Down)> down;
  std::function<void(LeaseClock::time_point)> run_until;  ///< the ranks may run until then
  std::function<void()> counts;             ///< crrun answers again after that time was over: this node still counts
  std::function<void(job::Up&)> heartbeat;  ///< fill in the heartbeat
  std::function<void()> lost;               ///< messages sent on this connection do not arrive any more
  /** What to send instead of a message of this daemon: its answers may be joined with those of daemons below. */
  std::function<std::vector<job::Up>(const job::Up&)> join;
};

class Link {
 public:
  Link(Node& node, LinkEvents events);
  void start();
  /** Send a message of this daemon, now or after the Welcome on the next connection. */
  void send(job::Up up);
  /** Send a message of daemons below if there is a connection; they repeat it themselves if needed. */
  void forward(const job::Up& up);
  /** Send a heartbeat now, in addition to the regular ones. */
  void beat_now();
  /** Whether to carry out a message of crrun other than an answer to heartbeats: once, and in its turn. */
  bool accept(const job::Down& down) { return channel_.accept(down); }
  /** crrun has answered Hello: send() sends at once from now on. @return false: crrun does not know this daemon yet */
  bool greeted(const job::Welcome& welcome) { return channel_.welcome(welcome); }
  /** Send what crrun has not confirmed. */
  void resend();
  /** crrun has answered Hello: this node counted when the Hello was sent. */
  void welcomed();
  /**
   * crrun has answered the heartbeat sent at @p unix_ns: this node counted at that time. It has all messages up to @p seen.
   * @param lease_ms for so long the ranks may run from then on; 0: as long as the job says
   */
  void answered(std::uint64_t unix_ns, std::uint64_t seen, std::uint32_t lease_ms);
  /** This node has no ranks any more. */
  void forget();
  /** The daemon has a new instance: what the old one has sent and received is void. */
  void begin_anew() { channel_ = {}; }
  /** When the newest heartbeat or Hello that crrun has answered was sent. */
  LeaseClock::time_point answered() const { return answered_; }
  /** The longest lease. */
  std::chrono::milliseconds longest_lease() const;
  /** Whether the ranks may not run. Messages of crrun must not be carried out until crrun has answered. */
  bool fenced() const { return fenced_; }
  bool connected() const { return connected_; }

 private:
  using Clock = std::chrono::steady_clock;
  job::ClientEvents client_events(bool of_parent);
  job::Client& client() { return by_parent_ ? *parent_ : client_; }
  void leave_parent(const std::string& why);
  void watch_parent();
  void look();
  void found(job::Reach reach, const std::string& endpoint);
  void beat();
  void judge();
  void renew(LeaseClock::time_point sent, std::chrono::milliseconds lease);
  void extend(LeaseClock::time_point until);
  std::chrono::milliseconds heartbeat() const;

  Node& node_;
  LinkEvents events_;
  job::Client client_;
  std::unique_ptr<job::Client> parent_;  ///< nullptr: this daemon has never had a parent
  asio::steady_timer beat_timer_, lease_timer_, parent_timer_;
  std::shared_ptr<void> tried_;  ///< the probe connection that found crrun's address; kept until connected
  bool connected_ = false, connecting_ = false, looking_ = false, fenced_ = false;
  bool crrun_dead_ = false;     ///< its address refused a connection: crrun is dead, its host is alive
  Clock::time_point heard_ = Clock::now(), connect_began_{};
  LeaseClock::time_point answered_{};     ///< when the newest answered heartbeat or Hello was sent
  LeaseClock::time_point until_{};        ///< the ranks may run until then
  std::chrono::milliseconds lease_;       ///< of the newest answer
  LeaseClock::time_point hello_sent_{};
  struct Beat {
    std::uint64_t unix_ns;
    LeaseClock::time_point sent;
  };
  std::deque<Beat> unanswered_;  ///< heartbeats without an answer, oldest first

  bool by_parent_ = false;       ///< crrun is reached through the parent
  LeaseClock::time_point parent_since_{};
  job::DaemonChannel channel_;
};

}  // namespace reprise::crd
