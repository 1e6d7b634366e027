// SPDX-License-Identifier: GPL-2.0-only
#include "crd/link.h"

#include <algorithm>
#include <ctime>

#include "job/log.h"
#include "job/names.h"

namespace reprise::crd {

using namespace std::chrono_literals;

namespace {
/** Number of heartbeats without an answer that are remembered. */
constexpr std::size_t kUnanswered = 256;
}  // namespace

LeaseClock::time_point LeaseClock::now() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return time_point(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

Link::Link(Node& node, LinkEvents events)
    : node_(node), events_(std::move(events)),
      client_(node.loop, job::connection_name(node.start.node, node.instance), node.start.server_public_key, node.start.client,
              client_events(false)),
      beat_timer_(node.loop), lease_timer_(node.loop), parent_timer_(node.loop), lease_(longest_lease()) {
  if (node.start.parent_addresses.empty()) return;
  parent_ = std::make_unique<job::Client>(node.loop, job::connection_name(node.start.node, node.instance),
                                          node.start.parent_public_key, node.start.client, client_events(true));
  by_parent_ = true;
}

job::ClientEvents Link::client_events(bool of_parent) {
  return {.down =
              [this](job::Down down) {
                heard_ = Clock::now();
                events_.down(std::move(down));
              },
          .answer = nullptr,
          .connected =
              [this, of_parent] {
                spdlog::debug("connected to {}", of_parent ? "the parent" : "crrun");
                connected_ = true;
                connecting_ = crrun_dead_ = false;
                tried_.reset();
                heard_ = Clock::now();
                unanswered_.clear();
                channel_.connected();
                if (of_parent) {
                  parent_since_ = LeaseClock::now();
                  watch_parent();
                }
                events_.connected();
              },
          .lost =
              [this, of_parent](const std::string& why) {
                if (of_parent) return leave_parent(why);
                spdlog::info("the connection to crrun is lost: {}", why);
                connecting_ = false;
                if (std::exchange(connected_, false)) events_.lost();
                look();
              }};
}

std::chrono::milliseconds Link::heartbeat() const {
  return std::chrono::milliseconds(node_.welcomed && node_.job.heartbeat_ms() ? node_.job.heartbeat_ms() : 500);
}
std::chrono::milliseconds Link::longest_lease() const {
  return std::chrono::milliseconds(node_.welcomed && node_.job.lost_after_ms() ? node_.job.lost_after_ms() : 3000);
}

void Link::start() {
  look();
  beat();
}

void Link::send(job::Up up) {
  const bool now = channel_.send(up);
  if (!now || !connected_) return;
  if (up.has_hello()) {
    hello_sent_ = LeaseClock::now();
    channel_.fill(*up.mutable_hello());
  }
  for (const job::Up& one : events_.join(up)) client().send(one);
}

void Link::forward(const job::Up& up) {
  if (connected_) client().send(up);
}

void Link::resend() {
  if (!connected_) return;
  for (const auto& up : channel_.kept()) client().send(*up);
}

void Link::welcomed() { renew(hello_sent_, longest_lease()); }

void Link::answered(std::uint64_t unix_ns, std::uint64_t seen, std::uint32_t lease_ms) {
  channel_.confirm(seen);
  // The time of day may have been set since. So use unix_ns only as a number, and take the time when that heartbeat was
  // sent.
  const auto found = std::find_if(unanswered_.begin(), unanswered_.end(), [&](const Beat& one) { return one.unix_ns == unix_ns; });
  if (found == unanswered_.end()) return;
  const auto [number, sent] = *found;
  unanswered_.erase(unanswered_.begin(), found + 1);
  renew(sent, lease_ms ? std::chrono::milliseconds(lease_ms) : longest_lease());
}

void Link::forget() {
  fenced_ = false;
  answered_ = until_ = {};
  lease_timer_.cancel();
}

void Link::renew(LeaseClock::time_point sent, std::chrono::milliseconds lease) {
  lease_ = lease;
  answered_ = std::max(answered_, sent);
  extend(sent + lease);
  if (by_parent_) watch_parent();
  judge();
}

void Link::extend(LeaseClock::time_point until) {
  if (until <= until_) return;
  until_ = until;
  events_.run_until(until_);
}

void Link::leave_parent(const std::string& why) {
  if (!std::exchange(by_parent_, false)) return;
  spdlog::info("this node does not reach crrun through its parent any more: {}", why);
  parent_timer_.cancel();
  parent_->disconnect();
  connecting_ = false;
  tried_.reset();
  if (std::exchange(connected_, false)) events_.lost();
  look();
}

/** Leave the parent early enough when no answer comes through it: time must remain to reach crrun within the lease. */
void Link::watch_parent() {
  const auto left = std::max(answered_, parent_since_) + lease_ * 2 / 3 - LeaseClock::now();
  parent_timer_.expires_after(std::max<LeaseClock::duration>(left, 0ns));
  parent_timer_.async_wait([this](const asio::error_code& error) {
    if (error || !by_parent_ || !connected_) return;
    if (std::max(answered_, parent_since_) + lease_ * 2 / 3 > LeaseClock::now()) return watch_parent();
    leave_parent("no answer came through it");
  });
}

void Link::look() {
  if (looking_ || connecting_) return;
  looking_ = true;
  job::find_reach(node_.loop, by_parent_ ? node_.start.parent_addresses : node_.start.addresses,
                  std::max<std::chrono::milliseconds>(lease_ / 2, 500ms),
                  [this, by_parent = by_parent_](job::Reach reach, const std::string& endpoint, std::shared_ptr<void> held) {
                    if (by_parent != by_parent_) {
                      looking_ = false;
                      return look();
                    }
                    tried_ = std::move(held);
                    found(reach, endpoint);
                  });
}

void Link::found(job::Reach reach, const std::string& endpoint) {
  looking_ = false;
  if (connected_) tried_.reset();
  if (by_parent_ && reach != job::Reach::open) return leave_parent("its address does not accept connections");
  if (reach == job::Reach::open && (!connected_ || Clock::now() - heard_ > lease_)) {
    if (std::exchange(connected_, false)) events_.lost();
    connecting_ = true;
    connect_began_ = Clock::now();
    // A crrun that has just started waits for its daemons longer than the lease before it gives them up.
    if (crrun_dead_) judge();
    crrun_dead_ = false;
    client().connect(endpoint);
  }
  if (reach == job::Reach::refused && !std::exchange(crrun_dead_, true))
    spdlog::warn("crrun has ended, but its host answers: the ranks here run on; take the job over with crrun --attach");
  if (reach == job::Reach::silent) crrun_dead_ = false;
  judge();
}

/** Decide whether the ranks may run. */
void Link::judge() {
  if (!node_.welcomed) return;
  const auto now = LeaseClock::now();
  // Only while the time is not over: otherwise a new crrun may have come and gone, and the ranks run elsewhere.
  if (crrun_dead_ && until_ > now) extend(now + longest_lease());
  const auto left = until_ - now;
  if (left > 0ns) {
    // Exact to the moment: crrun measures from the time when it last heard of this node, and restarts the ranks elsewhere
    // soon after.
    lease_timer_.expires_after(left);
    lease_timer_.async_wait([this](const asio::error_code& error) {
      if (!error) judge();
    });
    if (!std::exchange(fenced_, false)) return;
    spdlog::warn("crrun answers again, and this node counts: its ranks continue");
    return events_.counts();
  }
  if (std::exchange(fenced_, true)) return;
  spdlog::warn("crrun has not answered for {} ms: this node's ranks may run elsewhere now; those here stand still",
               std::chrono::duration_cast<std::chrono::milliseconds>(now - answered_).count());
}

void Link::beat_now() {
  if (!connected_) return;
  job::Up up;
  events_.heartbeat(up);
  channel_.fill(*up.mutable_heartbeat());
  unanswered_.push_back({up.heartbeat().unix_ns(), LeaseClock::now()});
  if (unanswered_.size() > kUnanswered) unanswered_.pop_front();
  for (const job::Up& one : events_.join(up)) client().send(one);
}

void Link::beat() {
  const auto now = Clock::now();
  judge();
  beat_now();
  if (connecting_ && now - connect_began_ > lease_) {
    if (by_parent_) {
      leave_parent("the connection was not made in time");
    } else {
      connecting_ = false;
      tried_.reset();
      client_.disconnect();
    }
  }
  if (!connected_ || now - heard_ > lease_) look();
  beat_timer_.expires_after(heartbeat());
  beat_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) beat();
  });
}

}  // namespace reprise::crd
