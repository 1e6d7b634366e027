// SPDX-License-Identifier: GPL-2.0-only
// What the coordinator measures of waves, and the time of the next one when crrun chooses the interval.
#include <algorithm>
#include <cmath>
#include <set>

#include "coordinator.h"

namespace reprise::job {

namespace {
/** An interval that differs less from the last that the timeline has is not worth a line. */
constexpr double kTellOfChange = 0.1;
}  // namespace

void Coordinator::ranks_run(Now now) {
  watchdog_.running(now);
  interval_.running(static_cast<std::uint32_t>(std::set<NodeIndex>(placement_.begin(), placement_.end()).size()), now);
}

/** All images of the open wave are there. */
void Coordinator::measure_wave(Now now) {
  // The job waits for its slowest rank: MPI is held from the begin until the connections are empty, then the threads stand still.
  std::uint64_t cost_ns = 0;
  for (const RankImage& image : round_->results()) {
    cost_ns = std::max(cost_ns, image.quiesce_ns + image.frozen_ns);
    tally_.written_bytes += image.bytes;
  }
  tally_.wave_standstill.add(cost_ns);
  tally_.wave.add((now.ms - std::min(now.ms, round_->begun().ms)) * 1'000'000);
  interval_.wave(cost_ns, round_->begun(), now);
}

void Coordinator::measure_staging(WaveNumber number, Now now) {
  const StoredWave* wave = store_.find(number);
  if (!wave) return;
  tally_.staging.add(now.unix_ns - std::min(now.unix_ns, wave->unix_ns));
  // The staging of an older wave was interrupted by a recovery. With redundancy a wave is of use before it is staged.
  if (wave->recovery == recovery_number_ && !protection_.on()) interval_.staged(wave->unix_ns, now);
}

/** When crrun chooses the interval: see when the next wave is due. @param from_ms the begin of the one before, or of the job */
void Coordinator::plan_wave(std::uint64_t from_ms, Now now) {
  if (!settings_.wave_interval_auto) return;
  const IntervalChoice choice = interval_.choose();
  clock_.every(choice.interval_ms, from_ms, now);
  const double before = chosen_ ? static_cast<double>(chosen_->interval_ms) : 0;
  if (!chosen_ || chosen_->limit != choice.limit || std::abs(static_cast<double>(choice.interval_ms) - before) > kTellOfChange * before) {
    nlohmann::json line = to_json(choice);
    line["event"] = "wave-interval";
    event(std::move(line), now);
  }
  chosen_ = choice;
}

/** @return in ms, as far as the clocks agree */
std::uint64_t Coordinator::age_of(const StoredWave& wave, Now now) const {
  return wave.unix_ns < now.unix_ns ? std::min(now.ms, (now.unix_ns - wave.unix_ns) / 1'000'000) : 0;
}

/** @return the wave that must still be copied until it survives the loss of a node; 0: none */
WaveNumber Coordinator::wave_in_copying() const {
  if (protection_.on()) return protecting_fails_ || store_.safe(protection_.wave()) ? 0 : protection_.wave();
  return staging_fails_ ? 0 : staging_.wave();
}

/**
 * Whether a wave that is due waits until the one before it is safe: a recovery could not use it earlier. Not when a user waits for
 * it, and not for ever: waves on the nodes alone are worth something, too.
 */
bool Coordinator::copying_lags(Now now) const {
  if (!settings_.wave_interval_auto || !wave_in_copying()) return false;
  if (!checkpoint_requests_.empty() || draining_.any() || leaving_.any()) return false;
  return clock_.due(now) && now.ms < *clock_.next_ms() + interval_.patience_ms();
}

}  // namespace reprise::job
