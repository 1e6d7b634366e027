// SPDX-License-Identifier: GPL-2.0-only
// The data that `crjob status` shows.
#include "coordinator.h"
#include "job/programs.h"

namespace reprise::job {

std::map<NodeIndex, std::uint32_t> Coordinator::ranks_on_nodes() const {
  std::map<NodeIndex, std::uint32_t> out = spawns_.used();
  for (Rank rank = 0; rank < placement_.size(); ++rank)
    if (!failed_.count(rank)) ++out[placement_[rank]];
  return out;
}

nlohmann::json Coordinator::status(Now now) const {
  nlohmann::json nodes = nlohmann::json::array(), ranks = nlohmann::json::array(), waves = nlohmann::json::array();
  std::map<NodeIndex, std::uint32_t> ranks_on = ranks_on_nodes();
  for (const Member& member : members_.all()) {
    const bool up = member.state == NodeState::up;
    const std::uint32_t count = ranks_on[member.node.index()];
    nodes.push_back({{"index", member.node.index()},
                     {"host", member.node.host()},
                     {"state", member_state(member, count)},
                     {"slots", member.node.slots()},
                     {"ranks", count},
                     {"lost_after_ms", members_.limit_ms(member)},
                     {"silent_ms", up && now.ms > member.heard_ms ? now.ms - member.heard_ms : 0},
                     {"free_local_bytes", member.free_local_bytes},
                     {"image_bytes", member.image_bytes},
                     {"load", member.load}});
  }
  for (Rank rank = 0; rank < ranks_.size(); ++rank) {
    const RankInfo& info = ranks_[rank];
    ranks.push_back({{"rank", rank},
                     {"node", rank < placement_.size() ? members_.host(placement_[rank]) : ""},
                     {"pid", info.pid},
                     {"state", failed_.count(rank) ? "failed"
                               : exits_.ended(rank) ? "ended"
                               : !info.started    ? "starting"
                               : !info.alive      ? "dead"
                                                  : "running"},
                     {"incarnation", info.incarnation},
                     {"bound_to", info.bound_to},
                     {"mpi", info.ready}});
  }
  for (const auto& [number, wave] : store_.waves()) {
    std::uint64_t staged_bytes = 0, staged_ranks = 0, safe_ranks = wave.ranks.size() - wave.unsafe();
    for (const StoredRank& rank : wave.ranks) {
      staged_ranks += rank.staged;
      if (rank.staged) staged_bytes += rank.bytes;
    }
    waves.push_back({{"wave", number},
                     {"unix_ns", wave.unix_ns},
                     {"pinned", number == pin_.wave()},
                     {"bytes", wave.bytes()},
                     {"staged", wave.staged()},
                     {"safe", store_.safe(number)},
                     {"safe_ranks", safe_ranks},
                     {"ranks", wave.ranks.size()},
                     {"staged_ranks", staged_ranks},
                     {"staged_bytes", staged_bytes},
                     {"available", placement_.empty() ? false : store_.available(wave, nodes_in(wave), serves())}});
  }
  nlohmann::json out = {{"id", settings_.spec.id()},
                        {"phase", name(phase_)},
                        {"argv", command_line(settings_.spec)},
                        {"directory", settings_.job_directory},
                        {"begun_unix_ns", begun_unix_ns_},
                        {"recovery", recovery_number_},
                        {"checkpoints", !settings_.spec.no_checkpoints()},
                        {"tells_failures", settings_.spec.tells_failures()},
                        {"wave_interval_ms", wave_interval_ms()},
                        {"shared", !settings_.spec.shared_directory().empty()},
                        {"redundancy", redundancy_words(settings_.spec.redundancy())},
                        {"nodes", nodes},
                        {"ranks", ranks},
                        {"waves", waves},
                        {"exit_code", exit_code_}};
  nlohmann::json spawned = nlohmann::json::array();
  for (const auto& [first, family] : spawns_.all())
    for (Rank rank = 0; family.lives() && rank < family.nodes.size(); ++rank)
      spawned.push_back({{"name", tag(first + rank)},
                         {"node", members_.host(family.nodes[rank])},
                         {"state", failed_.count(first + rank)      ? "failed"
                                   : family.processes[rank].ended   ? "ended"
                                   : family.processes[rank].started ? "running"
                                                                    : "starting"}});
  out["spawned"] = spawned;
  if (phase_ == Phase::running) out["no_wave"] = refusal();
  if (round_)
    out["wave_under_way"] = {
        {"wave", round_->wave()}, {"answered", round_->answered()}, {"ms", now.ms - round_->begun().ms}};
  if (const auto next = clock_.next_ms(); next && !round_ && !copying_lags(now) && refusal().empty()) {
    if (waits_for_progress() && clock_.due(now))
      out["wave_waits_for_progress"] = true;
    else
      out["next_wave_ms"] = *next > now.ms ? *next - now.ms : 0;
  }
  if (watchdog_.hangs())
    out["hang"] = {{"ms", watchdog_.stood_ms()}, {"words", hang_words()}, {"rollbacks", watchdog_.rollbacks()}};
  if (chosen_) {
    out["wave_interval"] = to_json(*chosen_);
    if (copying_lags(now)) out["wave_interval"]["waits_for_staging_of"] = wave_in_copying();
  }
  const auto progress = [&](const auto& of_nodes) {
    nlohmann::json all = nlohmann::json::array();
    for (const auto& [node, bytes] : of_nodes)
      all.push_back({{"host", members_.host(node)}, {"done_bytes", bytes.first}, {"total_bytes", bytes.second}});
    return all;
  };
  out["staging"] = progress(staging_progress_);
  out["copying"] = progress(copying_progress_);
  if (report_.recovery) {
    const RecoveryReport& last = report_;
    out["last_recovery"] = {{"recovery", last.recovery},
                            {"wave", last.wave},
                            {"cause", last.cause},
                            {"domain", name(last.own_stay ? Domain::spawned : Domain::all)},
                            {"restarted", last.restarted},
                            {"done", last.resumed_ns != 0},
                            {"detected_unix_ns", last.detected_ns},
                            {"decide_ns", last.decided_ns - last.detected_ns},
                            {"restore_ns", last.restored_ns ? last.restored_ns - last.decided_ns : 0},
                            {"resume_ns", last.resumed_ns ? last.resumed_ns - last.restored_ns : 0}};
  }
  return out;
}

}  // namespace reprise::job
