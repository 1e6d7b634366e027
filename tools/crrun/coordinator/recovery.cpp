// SPDX-License-Identifier: GPL-2.0-only
#include "recovery.h"

namespace reprise::job {

RecoveryRound::RecoveryRound(RecoveryNumber recovery, WaveNumber wave, std::uint32_t ranks, std::set<Rank> restart,
                             Now begun, std::uint64_t timeout_ms)
    : recovery_(recovery),
      wave_(wave),
      restart_(std::move(restart)),
      begun_(begun),
      timeout_ms_(timeout_ms),
      deadline_ms_(begun.ms + timeout_ms),
      have_(ranks, false) {}

bool RecoveryRound::answer(Rank rank) {
  if (rank >= have_.size() || have_[rank]) return false;
  have_[rank] = true;
  ++answered_;
  return true;
}

void RecoveryRound::restored(const Restored& message) {
  if (message.recovery() != recovery_ || step_ != Step::restoring) return;
  for (const RankRestored& rank : message.ranks())
    if (answer(rank.rank()) && !rank.error().empty())
      failures_.push_back({rank.rank(), rank.error(), rank.image_bad(), restart_.count(rank.rank()) > 0});
}

void RecoveryRound::resumed(const Resumed& message) {
  if (message.recovery() != recovery_ || step_ != Step::resuming) return;
  for (const RankResumed& rank : message.ranks())
    if (answer(rank.rank()) && !rank.error().empty())
      failures_.push_back({rank.rank(), rank.error(), false, restart_.count(rank.rank()) > 0});
}

void RecoveryRound::resume(Now now) {
  step_ = Step::resuming;
  all_restored_ = now;
  deadline_ms_ = now.ms + timeout_ms_;
  have_.assign(have_.size(), false);
  answered_ = 0;
}

void RecoveryRound::finish(Now) { step_ = Step::done; }

std::vector<Rank> RecoveryRound::missing() const {
  std::vector<Rank> out;
  for (Rank rank = 0; rank < have_.size(); ++rank)
    if (!have_[rank]) out.push_back(rank);
  return out;
}

}  // namespace reprise::job
