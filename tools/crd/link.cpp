// SPDX-License-Identifier: GPL-2.0-only
#include "crd/link.h"

#include "job/log.h"

namespace reprise::crd {

using namespace std::chrono_literals;

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
                     heard_ = Clock::now();
                     events_.connected();
                   },
               .lost =
                   [this](const std::string& why) {
                     spdlog::info("the connection to crrun is lost: {}", why);
                     connected_ = connecting_ = false;
                     look();
                   }}),
      look_timer_(node.loop), beat_timer_(node.loop) {}

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
  if (connected_) client_.send(up);
}

void Link::welcomed() {
  if (!std::exchange(fenced_, false)) return;
  spdlog::warn("crrun is there again, and this node counts: its ranks go on");
  events_.fence(false);
}

void Link::look() {
  if (looking_ || connecting_) return;
  looking_ = true;
  job::find_reach(node_.loop, node_.start.addresses, std::max<std::chrono::milliseconds>(lost_after() / 2, 500ms),
                  [this](job::Reach reach, const std::string& endpoint) { found(reach, endpoint); });
}

void Link::found(job::Reach reach, const std::string& endpoint) {
  looking_ = false;
  if (reach == job::Reach::open && (!connected_ || Clock::now() - heard_ > lost_after())) {
    connected_ = false;
    connecting_ = true;
    connect_began_ = Clock::now();
    client_.connect(endpoint);
  }
  if (reach == job::Reach::refused && !std::exchange(crrun_dead_, true))
    spdlog::warn("crrun has ended, its host lives: the ranks here run on, and wait for crrun --attach");
  if (reach == job::Reach::silent) crrun_dead_ = false;
  judge();
}

/** Whether the ranks may run. */
void Link::judge() {
  const auto silent_for = Clock::now() - heard_;
  if (!node_.welcomed || fenced_ || crrun_dead_ || connecting_ || silent_for < lost_after()) return;
  // A connection that is up carries a word of crrun's every heartbeat, so that silence means it is cut.
  fenced_ = true;
  spdlog::warn("no word from crrun for {} ms: its ranks may have been started elsewhere, those here stand still",
               std::chrono::duration_cast<std::chrono::milliseconds>(silent_for).count());
  events_.fence(true);
}

void Link::beat() {
  const auto now = Clock::now();
  // We may have been stopped ourselves: give crrun the chance to be heard first.
  if (last_beat_ != Clock::time_point{} && now - last_beat_ > heartbeat() + lost_after() / 2) heard_ = std::max(heard_, now - lost_after() / 2);
  last_beat_ = now;
  if (connected_) {
    job::Up up;
    events_.heartbeat(up);
    client_.send(up);
  }
  if (connecting_ && now - connect_began_ > lost_after()) {
    connecting_ = false;
    client_.disconnect();
  }
  if (!connected_ || now - heard_ > lost_after()) look();
  beat_timer_.expires_after(heartbeat());
  beat_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) beat();
  });
}

}  // namespace reprise::crd
