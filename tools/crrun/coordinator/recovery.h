// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file One recovery: which ranks must still be restored, which have resumed. */
#include <set>

#include "types.h"

namespace reprise::job {

class RecoveryRound {
 public:
  enum class Step { restoring, resuming, done };
  /** A rank that could not be restored. */
  struct Failure {
    Rank rank;
    std::string error;
    bool image_bad;
    bool restarted;  ///< it was to be restarted; else paused
  };

  RecoveryRound(RecoveryNumber recovery, WaveNumber wave, std::uint32_t ranks, std::set<Rank> restart, Now begun,
                std::uint64_t timeout_ms);

  void restored(const Restored& message);
  void resumed(const Resumed& message);
  /** All are restored, and Resume is sent. */
  void resume(Now now);
  /** All ranks have resumed. */
  void finish(Now now);

  bool all_answered() const { return answered_ == have_.size(); }
  bool late(Now now) const { return now.ms >= deadline_ms_; }
  std::vector<Rank> missing() const;
  const std::vector<Failure>& failures() const { return failures_; }

  RecoveryNumber recovery() const { return recovery_; }
  WaveNumber wave() const { return wave_; }
  Step step() const { return step_; }
  const std::set<Rank>& restart() const { return restart_; }
  Now begun() const { return begun_; }
  Now all_restored() const { return all_restored_; }

 private:
  bool answer(Rank rank);

  RecoveryNumber recovery_;
  WaveNumber wave_;
  Step step_ = Step::restoring;
  std::set<Rank> restart_;
  Now begun_, all_restored_;
  std::uint64_t timeout_ms_, deadline_ms_;
  std::vector<bool> have_;
  std::size_t answered_ = 0;
  std::vector<Failure> failures_;
};

}  // namespace reprise::job
