// SPDX-License-Identifier: GPL-2.0-only
// A job that hangs: what the user is told, and the rollback.
#include "coordinator.h"

namespace reprise::job {

void Coordinator::watch(Now now) {
  // A silent node says nothing of its ranks, and a wave holds them.
  if (!watchdog_.on() || round_ || expected_.any()) return;
  switch (watchdog_.judge(placement_, [this](Rank rank) { return exits_.ended(rank); })) {
    case Watchdog::Change::none: break;
    case Watchdog::Change::hangs: hang(now); break;
    case Watchdog::Change::goes_on:
      event({{"event", "hang-over"}}, now);
      out_.say(Log::INFO, "ranks progress again");
      break;
  }
}

void Coordinator::hang(Now now) {
  const std::string id = settings_.spec.id();
  const bool back = settings_.hang_recover && !settings_.spec.no_checkpoints() && watchdog_.may_roll_back();
  event({{"event", "hang"},
         {"ms", watchdog_.stood_ms()},
         {"waiting", watchdog_.waiting().count},
         {"asleep", watchdog_.asleep().count},
         {"rollbacks", watchdog_.rollbacks()}},
        now);
  std::string text = "no rank has progressed for " + std::to_string(watchdog_.stood_ms() / 1000) + " s: " + hang_words() + "; ";
  if (back)
    text += "the job goes back to a wave from before";
  else if (!settings_.hang_recover)
    text += "crjob status " + id + " shows the job, crjob end " + id + " ends it; with --on-hang recover crrun takes it back to a wave by itself";
  else if (settings_.spec.no_checkpoints())
    text += "without checkpoints it cannot go back to a wave; crjob end " + id + " ends it";
  else
    text += "it has hung at the same place after " + std::to_string(watchdog_.rollbacks()) +
            " rollbacks, so the program itself hangs there, and crrun does not take it back again; look at the ranks with a debugger, or end the job by crjob end " + id;
  out_.say(Log::WARNING, text);
  if (back) roll_back_hang(now);
}

/** "6 ranks wait in MPI (rank 0 on node1, rank 1 on node1, ...), 2 ranks sleep (rank 5 on node2, rank 7 on node3)" */
std::string Coordinator::hang_words() const {
  const auto words = [this](const Watchdog::Seen& seen, const char* one, const char* several) {
    if (!seen.count) return std::string();
    std::string out = seen.count == 1 ? std::string("1 rank ") + one : std::to_string(seen.count) + " ranks " + several;
    for (std::size_t i = 0; i < seen.first.size(); ++i) out += (i ? ", " : " (") + on(seen.first[i]);
    if (seen.first.empty()) return out;
    return out + (seen.count > seen.first.size() ? ", ...)" : ")");
  };
  const std::string waiting = words(watchdog_.waiting(), "waits in MPI", "wait in MPI"), asleep = words(watchdog_.asleep(), "sleeps", "sleep");
  return waiting + (waiting.empty() || asleep.empty() ? "" : ", ") + asleep;
}

/** A wave that was taken after the last progress would bring the hang back: go to an older one if there is one. */
void Coordinator::roll_back_hang(Now now) {
  std::vector<WaveNumber> hung;
  for (auto wave = store_.waves().rbegin(); wave != store_.waves().rend(); ++wave) {
    if (watchdog_.hung(wave->first) || !store_.available(wave->second, nodes_in(wave->second), serves())) continue;
    hung = store_.forget_after(wave->first);
    break;
  }
  const auto wanted = plan(false);
  watchdog_.rolled_back(wanted ? wanted->wave : 0);
  recover({CauseKind::hang, "hang"}, now);
  for (WaveNumber wave : hung) drop_staged(wave);
}

/** Whether a wave that is due waits because it would save a hang. Not when a user or the batch system waits for it. */
bool Coordinator::waits_for_progress() const {
  return checkpoint_requests_.empty() && !draining_.any() && !leaving_.any() && watchdog_.holds_waves();
}

}  // namespace reprise::job
