// SPDX-License-Identifier: GPL-2.0-only
#include "crd/link.h"

#include <algorithm>
#include <ctime>

#include "job/log.h"

namespace reprise::crd {

using namespace std::chrono_literals;

namespace {
/** Of the heartbeats whose answer is awaited, so many are remembered. */
constexpr std::size_t kUnanswered = 256;
}  // namespace

Link::LeaseClock::time_point Link::LeaseClock::now() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return time_point(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

Link::Link(Node& node, LinkEvents events)
    : node_(node), events_(std::move(events)),
      client_(node.loop, "node-" + std::to_string(node.start.node) + "-" + node.instance, node.start.server_public_key, node.start.client,
              {.down =
                   [this](job::Down down) {
                     heard_ = Clock::now();
                     events_.down(std::move(down));
                   },
               .answer = nullptr,
               .connected =
                   [this] {
                     spdlog::debug("connected to crrun");
                     connected_ = true;
                     connecting_ = crrun_dead_ = false;
                     tried_.reset();
                     heard_ = Clock::now();
                     unanswered_.clear();
                     greeted_ = false;
                     events_.connected();
                   },
               .lost =
                   [this](const std::string& why) {
                     spdlog::info("the connection to crrun is lost: {}", why);
                     connected_ = connecting_ = false;
                     look();
                   }}),
      beat_timer_(node.loop), lease_timer_(node.loop) {}

std::chrono::milliseconds Link::heartbeat() const {
  return std::chrono::milliseconds(node_.welcomed && node_.job.heartbeat_ms() ? node_.job.heartbeat_ms() : 500);
}
std::chrono::milliseconds Link::lost_after() const {
  return std::chrono::milliseconds(node_.welcomed && node_.job.lost_after_ms() ? node_.job.lost_after_ms() : 3000);
}

void Link::start() {
  look();
  beat();
}

void Link::send(const job::Up& up) {
  // Output that comes before Hello was answered is said again then, after what went before it.
  if (!connected_ || (up.has_output() && !greeted_)) return;
  if (up.has_hello()) hello_sent_ = LeaseClock::now();
  client_.send(up);
}

void Link::welcomed() {
  greeted_ = true;
  renew(hello_sent_);
}

void Link::answered(std::uint64_t unix_ns) {
  // The time of day may have been set since: what counts is when we sent what has this number.
  const auto found = std::find_if(unanswered_.begin(), unanswered_.end(), [&](const auto& one) { return one.first == unix_ns; });
  if (found == unanswered_.end()) return;
  const auto sent = found->second;
  unanswered_.erase(unanswered_.begin(), found + 1);
  renew(sent);
}

void Link::forget() {
  fenced_ = false;
  lease_ = {};
  lease_timer_.cancel();
}

void Link::renew(LeaseClock::time_point sent) {
  lease_ = std::max(lease_, sent);
  judge();
}

void Link::look() {
  if (looking_ || connecting_) return;
  looking_ = true;
  job::find_reach(node_.loop, node_.start.addresses, std::max<std::chrono::milliseconds>(lost_after() / 2, 500ms),
                  [this](job::Reach reach, const std::string& endpoint, std::shared_ptr<void> held) {
                    tried_ = std::move(held);
                    found(reach, endpoint);
                  });
}

void Link::found(job::Reach reach, const std::string& endpoint) {
  looking_ = false;
  if (connected_) tried_.reset();
  if (reach == job::Reach::open && (!connected_ || Clock::now() - heard_ > lost_after())) {
    connected_ = false;
    connecting_ = true;
    connect_began_ = Clock::now();
    // A crrun that has begun anew waits for its daemons longer than this before it gives them up.
    if (std::exchange(crrun_dead_, false) && !fenced_) lease_ = LeaseClock::now();
    client_.connect(endpoint);
  }
  if (reach == job::Reach::refused && !std::exchange(crrun_dead_, true))
    spdlog::warn("crrun has ended, its host lives: the ranks here run on, and wait for crrun --attach");
  if (reach == job::Reach::silent) crrun_dead_ = false;
  judge();
}

/** Whether the ranks may run. */
void Link::judge() {
  if (!node_.welcomed) return;
  const auto left = lease_ + lost_after() - LeaseClock::now();
  if (left > 0ns) {
    // To the moment: crrun counts from when it heard of us, and starts them elsewhere soon after.
    lease_timer_.expires_after(left);
    lease_timer_.async_wait([this](const asio::error_code& error) {
      if (!error) judge();
    });
    if (!std::exchange(fenced_, false)) return;
    spdlog::warn("crrun is there again, and this node counts: its ranks go on");
    return events_.fence(false);
  }
  if (fenced_ || crrun_dead_) return;
  fenced_ = true;
  spdlog::warn("crrun has not answered for {} ms: the ranks of this node may have been started elsewhere, those here stand still",
               std::chrono::duration_cast<std::chrono::milliseconds>(lost_after() - left).count());
  events_.fence(true);
}

void Link::beat() {
  const auto now = Clock::now();
  judge();
  if (connected_) {
    job::Up up;
    events_.heartbeat(up);
    unanswered_.emplace_back(up.heartbeat().unix_ns(), LeaseClock::now());
    if (unanswered_.size() > kUnanswered) unanswered_.pop_front();
    client_.send(up);
  }
  if (connecting_ && now - connect_began_ > lost_after()) {
    connecting_ = false;
    tried_.reset();
    client_.disconnect();
  }
  if (!connected_ || now - heard_ > lost_after()) look();
  beat_timer_.expires_after(heartbeat());
  beat_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) beat();
  });
}

}  // namespace reprise::crd
