// SPDX-License-Identifier: GPL-2.0-only
// Jobs that tell failures (JobSpec.tells_failures): a process that fails is not replaced. Its peers are told, and the program
// deals with it by the functions of MPI's user-level failure mitigation.
#include <csignal>

#include "coordinator.h"

namespace reprise::job {

/** Tell the ranks that these processes have failed. Nothing waits for them any more. */
void Coordinator::tell_failed(std::vector<Rank> ranks, Now now) {
  std::erase_if(ranks, [this](Rank rank) { return !failed_.insert(rank).second; });
  if (ranks.empty()) return;
  tally_.ranks_failed += ranks.size();
  event({{"event", "ranks-failed"}, {"ranks", ranks}}, now);
  Failed& message = *out_.send().mutable_failed();
  message.mutable_ranks()->Assign(ranks.begin(), ranks.end());
  for (Fences::Done& done : fences_.fail(ranks, placement_, spawns_.where()))
    *out_.send(done.to).mutable_fence_done() = std::move(done.message);
  save();  // afterwards, as messages wait for the disk: a later crrun that does not know it finds that they have ended
}

/** A node is lost with its ranks, and with what was spawned there. */
void Coordinator::fail_node(NodeIndex node, Now now) {
  std::vector<Rank> failed;
  for (Rank rank = 0; rank < placement_.size(); ++rank) {
    if (placement_[rank] != node) continue;
    // No more output comes from there, not even of ranks that had ended well.
    for (OutputStream& stream : ranks_[rank].output) stream.ended = true;
    if (exits_.ended(rank)) continue;
    if (exits_.exited(rank, SIGKILL, false, ranks_[rank].ready, Remedy::program, false) == ExitMeaning::end_job) {
      out_.say(Log::ERROR, on(rank) + " was lost before it had called MPI_Init: the job is ended");
      return end(exits_.code(), true, now);
    }
    failed.push_back(rank);
  }
  for (const auto& [rank, where] : spawns_.where()) {
    if (where != node) continue;
    Family& family = *spawns_.find(rank);
    Family::Process& process = family.processes[rank - family.first];
    if (!process.ended) failed.push_back(rank);
    process.gone();
  }
  tell_failed(failed, now);
  for (Rank rank : failed)
    if (Family* family = spawns_.find(rank)) spawned_failed(*family, members_.host(node) + " was lost while processes were spawned", now);
  maybe_all_done(now);
}

/** crrun was started again. @param dead ranks that are neither there nor known to have ended */
void Coordinator::attached_telling(std::vector<Rank> dead, Now now) {
  if (was_spawning_) {
    out_.say(Log::ERROR, "crrun was started again while spawned processes ran, of which it knows nothing: the job is ended");
    return end(1, true, now);
  }
  // The daemons may not have got what the earlier crrun has told.
  dead.insert(dead.end(), failed_.begin(), failed_.end());
  failed_.clear();
  for (Rank rank : dead)
    if (rank < ranks_.size()) {
      exits_.exited(rank, SIGKILL, false, true, Remedy::program, false);
      for (OutputStream& stream : ranks_[rank].output) stream.ended |= !members_.up(placement_[rank]);
    }
  tell_failed(std::move(dead), now);
}

/** Some of these processes have failed. If the one that spawned them still waits, its call fails, too. */
void Coordinator::spawned_failed(Family& family, const std::string& why, Now now) {
  if (!family.lives()) return;
  if (!family.answered) return answer_spawn(family, kLaunchFailed, why, now);
  spawned_gone(family, now);
}

/** Messages between two living ranks are lost: one of them has to count as failed, the same one for all. */
void Coordinator::fail_link(const LinkLost& message) {
  const bool known = node_of(message.peer()).has_value();
  const Rank rank = known ? std::max(message.rank(), message.peer()) : message.rank();
  const auto node = node_of(rank);
  const auto dies = [this](Rank one) { return failed_.count(one) || condemned_.count(one); };
  if (!node || dies(message.rank()) || (known && dies(message.peer()))) return;
  condemned_.insert(rank);
  out_.say(Log::WARNING, on(rank) + " is killed: messages between it and " +
                             (known ? on(rank == message.rank() ? message.peer() : message.rank()) : "a spawned process") +
                             " were lost with their connection");
  Deliver& kill = *out_.send({*node}).mutable_signal();
  kill.set_signal(SIGKILL);
  kill.add_ranks(rank);
}

/** A daemon that joins a running job knows none of its processes; those that had been started on its node have ended. */
void Coordinator::introduce_processes(NodeIndex node) {
  for (const auto& [first, family] : spawns_.all())
    if (family.lives()) tell_spawn(family, node);
}

}  // namespace reprise::job
