// SPDX-License-Identifier: GPL-2.0-only
#include "watchdog.h"

#include <algorithm>
#include <limits>

namespace reprise::job {

namespace {
/** More than can be stored at once: older ones are not asked for. */
constexpr std::size_t kWaves = 16;
constexpr std::size_t kNamed = 4;
}  // namespace

void Watchdog::running(Now now) {
  since_ms_ = now.ms;
  ended_ms_ = 0;
  nodes_.clear();
  begun_ms_.clear();
  hangs_ = false;
}

void Watchdog::heard(NodeIndex node, const Standing& standing, Now now) {
  if (!on()) return;
  Report& report = nodes_[node];
  // Those who have waited for it may go on now: they are to be heard again.
  if (standing.ranks() < report.said.ranks()) ended_ms_ = now.ms;
  report = {now.ms, standing};
  // Ranks may be slower than before the rollback: the time of a hang is time enough.
  if (!place_ms_ || !standing.ranks() || report.progressed_ms() < since_ms_ + *place_ms_ + after_ms_) return;
  place_ms_.reset();
  back_to_.reset();
  rollbacks_ = 0;
}

void Watchdog::committed(WaveNumber wave, Now begun) {
  begun_ms_[wave] = begun.ms;
  if (begun_ms_.size() > kWaves) begun_ms_.erase(begun_ms_.begin());
}

std::uint64_t Watchdog::stood_ms() const {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [node, report] : nodes_)
    if (report.said.ranks())
      least = std::min({least, std::uint64_t{report.said.stood_ms()}, report.heard_ms - std::min(report.heard_ms, ended_ms_)});
  return least == std::numeric_limits<std::uint64_t>::max() ? 0 : least;
}

Watchdog::Change Watchdog::judge(const PlacementTable& placement, const std::function<bool(Rank)>& ended) {
  bool hangs = on() && stood_ms() >= after_ms_;
  for (Rank rank = 0; hangs && rank < placement.size(); ++rank) hangs = ended(rank) || nodes_.count(placement[rank]);
  if (hangs == std::exchange(hangs_, hangs)) return Change::none;
  return hangs ? Change::hangs : Change::goes_on;
}

Watchdog::Seen Watchdog::seen(std::uint32_t (Standing::*count)() const,
                              const google::protobuf::RepeatedField<std::uint32_t>& (Standing::*first)() const) const {
  Seen out;
  for (const auto& [node, report] : nodes_) {
    out.count += (report.said.*count)();
    for (const Rank rank : (report.said.*first)())
      if (out.first.size() < kNamed) out.first.push_back(rank);
  }
  return out;
}

Watchdog::Seen Watchdog::waiting() const { return seen(&Standing::waiting, &Standing::first_waiting); }
Watchdog::Seen Watchdog::asleep() const { return seen(&Standing::asleep, &Standing::first_asleep); }

/** @return when a rank was last seen to progress, nothing: no daemon has reported yet. It may have been a look's time earlier. */
std::optional<std::uint64_t> Watchdog::progressed_ms() const {
  std::optional<std::uint64_t> last;
  for (const auto& [node, report] : nodes_)
    if (report.said.ranks()) last = std::max(last.value_or(0), report.progressed_ms());
  return last;
}

bool Watchdog::hung(WaveNumber wave) const {
  const auto begun = begun_ms_.find(wave);
  const auto last = progressed_ms();
  // The first looks after a rollback take for progress what a rank does to come back.
  if (back_to_ && wave >= *back_to_ && last && *last <= since_ms_ + 2 * look_ms_) return true;
  return begun != begun_ms_.end() && last && begun->second + look_ms_ >= *last;
}

bool Watchdog::holds_waves() const {
  if (!on()) return false;
  return place_ms_ || (!begun_ms_.empty() && hung(begun_ms_.rbegin()->first));
}

void Watchdog::rolled_back(WaveNumber wave) {
  const auto begun = begun_ms_.find(wave);
  const std::uint64_t from = begun == begun_ms_.end() ? since_ms_ : begun->second;
  const std::uint64_t last = progressed_ms().value_or(from);
  place_ms_ = last - std::min(last, from);
  back_to_ = wave;
  ++rollbacks_;
}

}  // namespace reprise::job
