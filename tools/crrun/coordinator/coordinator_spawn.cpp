// SPDX-License-Identifier: GPL-2.0-only
// The coordinator's part of MPI_Comm_spawn.
#include <algorithm>
#include <limits>

#include <sys/wait.h>

#include "coordinator.h"
#include "job/names.h"

namespace reprise::job {

namespace {
// PMIx's status codes.
constexpr int kSuccess = 0;
constexpr int kOutOfResource = -29;
}  // namespace

void Coordinator::spawn(const Up& up, Now now) {
  const Spawn& wish = up.spawn();
  if (wish.recovery() != recovery_number_) return;
  if (phase_ == Phase::recovering) {
    // A rank that is restored early may request a spawn before all ranks are restored.
    if (std::none_of(early_spawns_.begin(), early_spawns_.end(),
                     [&](const Up& one) { return one.from() == up.from() && one.spawn().id() == wish.id(); }))
      early_spawns_.push_back(up);
    return;
  }
  if (phase_ != Phase::running) return;
  if (const Family* known = spawns_.asked(up.from(), wish.id())) {
    if (known->answered) answer_spawn(*spawns_.find(known->first), known->status, "", now);
    return;
  }
  // The new processes cannot be in it, and the state of the PMIx servers changes.
  abort_wave(GivenUp::spawn, "MPI_Comm_spawn", now);
  const std::map<NodeIndex, std::uint32_t> used = ranks_on_nodes();
  std::map<std::string, NodeIndex> nodes;
  for (const Member& member : members_.all()) nodes[member.node.host()] = member.node.index();
  std::vector<Seat> places = seats(false);
  // A spare without ranks is reserved for the ranks of a lost node, unless the program itself replaces these.
  for (Seat& seat : places) seat.usable &= settings_.spec.tells_failures() || !seat.spare || used.count(seat.node);

  Family family;
  family.apps.assign(wish.apps().begin(), wish.apps().end());
  const auto placed = place_spawned(family.apps, places, used, nodes);
  // Numbers are never reused.
  const bool numbers_left = placed && placed->size() < std::numeric_limits<Rank>::max() - next_number_;
  if (!placed || placed->empty() || !numbers_left) {
    out_.say(Log::WARNING, on(wish.from()) + " asked to spawn processes, but there are not enough slots");
    SpawnReply& reply = *out_.send({up.from()}).mutable_spawn_reply();
    reply.set_id(wish.id());
    reply.set_status(kOutOfResource);
    return;
  }
  family.index = next_family_++;
  family.first = next_number_;
  family.parent = wish.from();
  family.asker = up.from();
  family.question = wish.id();
  family.nodes = *placed;
  family.wave = store_.newest().value_or(0);
  for (NodeIndex node : members_.living()) family.awaited.insert(node);
  next_number_ += static_cast<Rank>(placed->size());
  Family& kept = spawns_.add(std::move(family));
  for (Family::Process& process : kept.processes) process.incarnation = recovery_number_;
  // A later crrun must know that these processes exist, and must not reuse their numbers.
  save();
  tell_spawn(kept);
  event({{"event", "spawn"},
         {"name", spawned_name(settings_.spec.id(), kept.index)},
         {"first", kept.first},
         {"parent", kept.parent},
         {"program", kept.apps.front().program()},
         {"placement", kept.nodes}},
        now);
}

/** @param late a node that has joined since; nothing: all daemons start what is theirs */
void Coordinator::tell_spawn(const Family& family, std::optional<NodeIndex> late) {
  SpawnBegin& message = *(late ? out_.send({*late}) : out_.send()).mutable_spawn_begin();
  message.set_begun(late.has_value());
  message.set_recovery(recovery_number_);
  message.set_index(family.index);
  message.set_first(family.first);
  message.set_wave(next_wave_ - 1);  // all running ranks know of it by now, see recovery_done()
  for (const SpawnApp& app : family.apps) *message.add_apps() = app;
  for (NodeIndex node : family.nodes) message.add_node_of_rank(node);
  message.set_parent(family.parent);
  // Daemons join a job without getting ranks only if failures are told: all others learn the placement by the recovery.
  for (Rank rank = 0; settings_.spec.tells_failures() && rank < placement_.size(); ++rank) {
    Placement& placement = *message.add_placement();
    placement.set_rank(rank);
    placement.set_node(placement_[rank]);
  }
}

void Coordinator::spawn_known(const Up& up, Now now) {
  if (up.spawn_known().recovery() != recovery_number_) return;
  Family* family = spawns_.by_index(up.spawn_known().index());
  if (!family || !family->lives()) return;
  family->awaited.erase(up.from());
  if (!up.spawn_known().error().empty())
    return answer_spawn(*family, kLaunchFailed, members_.host(up.from()) + ": " + up.spawn_known().error(), now);
  judge_spawn(*family, now);
}

void Coordinator::spawned_started(const RankStarted& message, Now now) {
  Family* family = spawns_.find(message.rank());
  if (!family || !family->lives()) return;
  Family::Process& process = family->processes[message.rank() - family->first];
  process.started = message.error().empty();
  if (process.started) return judge_spawn(*family, now);
  process.gone();
  const Rank first = family->first;
  if (!family->answered) answer_spawn(*family, kLaunchFailed, on(message.rank()) + " could not be started: " + message.error(), now);
  if (Family* left = spawns_.find(first)) spawned_gone(*left, now);
}

void Coordinator::judge_spawn(Family& family, Now now) {
  if (family.answered || !family.awaited.empty() || !family.all_started()) return;
  answer_spawn(family, kSuccess, "", now);
}

void Coordinator::answer_spawn(Family& family, int status, const std::string& why, Now now) {
  const bool first = !std::exchange(family.answered, true);
  if (first) family.status = status;
  SpawnReply& reply = *out_.send({family.asker}).mutable_spawn_reply();
  reply.set_id(family.question);
  reply.set_status(family.status);
  if (family.status == kSuccess) reply.set_nspace(spawned_name(settings_.spec.id(), family.index));
  if (!first || status == kSuccess) return;
  out_.say(Log::WARNING, why);
  family.failed = true;
  // Processes that are not started yet will not be started; the others are killed.
  for (Family::Process& process : family.processes) {
    if (!process.started) process.gone();
  }
  SpawnEnd& message = *out_.send().mutable_spawn_end();
  message.set_recovery(recovery_number_);
  message.set_index(family.index);
  spawned_gone(family, now);
}

void Coordinator::spawned_exited(const RankExited& message, Now now) {
  Family* family = spawns_.find(message.rank());
  if (!family || !family->lives()) return;
  Family::Process& process = family->processes[message.rank() - family->first];
  process.ended = true;
  event({{"event", "rank-exit"},
         {"rank", message.rank()},
         {"node", family->nodes[message.rank() - family->first]},
         {"status", message.wait_status()},
         {"finalized", message.finalized()}},
        now);
  const bool well = message.wait_status() == 0 && (message.finalized() || !process.ready);
  if (well && message.finalized()) exits_.spawned_finished();
  if (well || family->failed || phase_ == Phase::ending) {
    if (well && phase_ == Phase::running) abort_wave(GivenUp::rank_ended, on(message.rank()) + " has ended", now);
    return spawned_gone(*family, now);
  }
  const std::string error = on(message.rank()) + " " + Exits::error_words(message.wait_status());
  if (settings_.spec.tells_failures() && phase_ == Phase::running) {
    out_.say(Log::WARNING, error + ": the program is told");
    tell_failed({message.rank()}, now);
    return spawned_failed(*family, error, now);
  }
  // As a rank of the job itself; but without a wave the program, begun anew, would only come here again.
  if (WIFSIGNALED(message.wait_status()) && !settings_.spec.no_checkpoints() && store_.newest() &&
      process.restarts++ < settings_.max_restarts) {
    out_.say(Log::WARNING, error);
    return recover({CauseKind::rank_died, "death of " + on(message.rank())}, now);
  }
  out_.say(Log::ERROR, error + ": the job is ended");
  end(Exits::code_of(message.wait_status()), true, now);
}

void Coordinator::spawned_gone(Family& family, Now now) {
  if (!family.lives() || !family.all_ended()) return;
  family.ended = true;
  SpawnEnd& message = *out_.send().mutable_spawn_end();
  message.set_recovery(recovery_number_);
  message.set_index(family.index);
  save();
  event({{"event", "spawn-end"}, {"name", spawned_name(settings_.spec.id(), family.index)}}, now);
  if (!spawns_.any_live()) told_of_spawned_ = false;
  // Without waves no output is ever repeated.
  if (settings_.spec.no_checkpoints()) spawns_.forget({});
  maybe_all_done(now);
}

OutputStream* Coordinator::spawned_output(Rank rank, std::uint32_t stream) {
  Family* family = spawns_.find(rank);
  if (!family || family->voided) return nullptr;
  return &family->processes[rank - family->first].output[stream - 1];
}

bool Coordinator::spawned_done() const {
  return std::all_of(spawns_.all().begin(), spawns_.all().end(),
                     [](const auto& one) { return one.second.voided || (one.second.ended && one.second.all_said()); });
}

void Coordinator::roll_back_spawns(const RecoveryPlan& plan, Domain domain) {
  // Wait also for nodes that have only spawned processes: those that are not in the wave must have ended before the job continues.
  for (NodeIndex node : spawns_.nodes()) {
    if (members_.up(node)) recovering_.must_leave(node);
    board_.node_lost(node);
  }
  const StoredWave* const wave = store_.find(plan.wave);
  std::vector<Rank> ended;
  for (const auto& [number, node] : spawns_.where())
    if (!wave || !wave->find(number)) ended.push_back(number);
  if (!ended.empty())
    out_.say(Log::INFO, std::to_string(ended.size()) +
                            " processes that were started by MPI_Comm_spawn since are killed; the program spawns them again when it "
                            "repeats that call");
  modex_.forget_from(static_cast<Rank>(ranks_.size()), [wave](Rank rank) { return wave && wave->find(rank); });
  spawns_.roll_back(wave, plan.nodes);
  early_spawns_.clear();
  if (domain == Domain::all) board_.rolled_back();
  told_of_spawned_ = was_spawning_ = false;
}

}  // namespace reprise::job
