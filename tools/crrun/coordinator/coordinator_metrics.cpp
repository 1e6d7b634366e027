// SPDX-License-Identifier: GPL-2.0-only
// What the coordinator counts of recoveries, and all that --metrics tells.
#include <algorithm>

#include "coordinator.h"

namespace reprise::job {

namespace {
std::string programs(const JobSpec& spec) {
  if (!spec.apps_size()) return spec.argv_size() ? spec.argv(0) : "";
  std::string out;
  for (const SpawnApp& app : spec.apps()) out += (out.empty() ? "" : " : ") + app.argv(0);
  return out;
}
}  // namespace

/** A recovery begins. @param next where it places the ranks */
void Coordinator::count_recovery(const Cause& cause, const PlacementTable& next, Now now) {
  ++tally_.recoveries[static_cast<std::size_t>(cause.kind)];
  for (Rank rank = 0; rank < placement_.size(); ++rank) tally_.ranks_moved += placement_[rank] != next[rank];
  if (!standstill_) standstill_ = {cause.kind, now.ms - std::min(now.ms, cause.silence_ms(now))};
}

/** All ranks run again. */
void Coordinator::measure_recovery(Now now) {
  if (!standstill_) return;
  const std::uint64_t ns = (now.ms - std::min(now.ms, standstill_->since_ms)) * 1'000'000;
  tally_.recovery_standstill[static_cast<std::size_t>(standstill_->cause)].add(ns);
  tally_.last_recovery_standstill_ns = ns;
  standstill_.reset();
}

Metrics Coordinator::take_metrics(Now now) {
  Metrics out;
  out.job = settings_.spec.id();
  out.program = programs(settings_.spec);
  out.ranks = ranks_.size();
  out.begun_unix_ns = begun_unix_ns_;
  out.phase = phase_;
  out.exit_code = exit_code_;
  std::map<NodeIndex, std::uint32_t> ranks = ranks_on_nodes();
  for (const Member& member : members_.all()) ++out.nodes[member_state(member, ranks[member.node.index()])];
  const std::optional<std::int64_t> left = members_.take_lease_left(now);
  // Daemons that end send no heartbeats any more.
  if (phase_ == Phase::running || phase_ == Phase::recovering) out.lease_left_ms = left;
  out.wave_interval_ms = wave_interval_ms();
  if (const auto newest = store_.newest()) out.newest_wave_unix_ns = store_.find(*newest)->unix_ns;
  if (const auto newest = store_.newest_staged()) out.newest_staged_unix_ns = store_.find(*newest)->unix_ns;
  if (const auto newest = store_.newest_safe()) out.newest_safe_unix_ns = store_.find(*newest)->unix_ns;
  out.redundant = protection_.on();
  if (!settings_.spec.shared_directory().empty())
    out.waves_to_stage = store_.to_stage();
  out.tally = tally_;
  return out;
}

}  // namespace reprise::job
