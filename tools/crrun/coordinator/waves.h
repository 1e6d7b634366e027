// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file One wave, and when the next one is due. */
#include <optional>

#include "types.h"

namespace reprise::job {

/** A wave that was begun and is neither committed nor given up. */
class WaveRound {
 public:
  WaveRound(WaveNumber wave, RecoveryNumber recovery, std::uint32_t ranks, Now begun, std::uint64_t timeout_ms);

  enum class Verdict { pending, complete, again, failed, late };
  /** What a daemon, or several joined, have said. */
  void done(const WaveDone& message);
  /** Failures count at once: nothing is won by waiting for the others. */
  Verdict verdict(Now now) const;
  /** Why, in words: of the first rank that failed, or of those that are awaited. */
  std::string why() const;

  WaveNumber wave() const { return wave_; }
  RecoveryNumber recovery() const { return recovery_; }
  Now begun() const { return begun_; }
  std::uint32_t answered() const { return answered_; }
  /** By rank; all are there when complete. */
  const std::vector<RankWave>& results() const { return results_; }

 private:
  WaveNumber wave_;
  RecoveryNumber recovery_;
  Now begun_;
  std::uint64_t deadline_ms_;
  std::vector<RankWave> results_;
  std::vector<bool> have_;
  std::uint32_t answered_ = 0;
  bool again_ = false, failed_ = false;
  std::string error_;
};

/** When a wave is due. */
class WaveClock {
 public:
  explicit WaveClock(std::uint64_t interval_ms) : interval_ms_(interval_ms) {}

  /** The ranks run (again): count from now; @p soon: a wave shall follow at once. */
  void running(Now now, bool soon);
  void committed(Now now);
  /** Given up: at the interval again, or soon when the reason passes. */
  void aborted(Now now, bool again);
  /** Somebody asks for one now. */
  void request(Now now) { due_ms_ = now.ms; }
  bool due(Now now) const { return due_ms_ && now.ms >= *due_ms_; }
  std::optional<std::uint64_t> next_ms() const { return due_ms_; }

 private:
  std::uint64_t interval_ms_;
  std::optional<std::uint64_t> due_ms_;
  std::uint64_t failures_ = 0;  ///< in a row, for reasons that do not pass by themselves
};

}  // namespace reprise::job
