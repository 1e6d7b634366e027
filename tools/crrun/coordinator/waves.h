// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file One wave, and the time of the next one. */
#include <algorithm>
#include <cstdint>
#include <optional>

#include "roster.h"
#include "types.h"

namespace reprise::job {

/** Why a wave that has begun was not committed. */
enum class GivenUp : std::uint8_t {
  put_off,     ///< a rank could not take part at this moment (MPI_Init, PMIx)
  rank_ended,  ///< a rank has ended well
  spawn,       ///< a rank has called MPI_Comm_spawn
  error,       ///< a rank could not be saved
  late,        ///< a rank has not answered in time
  recovery,    ///< a recovery has begun
  job_end,     ///< the job ends
};
inline constexpr std::size_t kGivenUps = static_cast<std::size_t>(GivenUp::job_end) + 1;
/** @return whether the reason passes by itself, so that the next wave is tried soon */
constexpr bool passes(GivenUp why) { return why == GivenUp::put_off || why == GivenUp::rank_ended || why == GivenUp::spawn; }
const char* name(GivenUp why);

/** What a wave keeps of a rank's report: a large job has many ranks. */
struct RankImage {
  std::uint64_t bytes = 0, checksum = 0;
  std::uint64_t offsets[3] = {0, 0, 0};  ///< in standard input, output and error
  std::uint64_t begin_unix_ns = 0, end_unix_ns = 0;
  std::uint64_t quiesce_ns = 0, frozen_ns = 0, write_ns = 0;
  std::uint64_t inherited = 0;  ///< bytes of it that had not changed, and were taken from the image before
};

/** A wave that has begun and is neither committed nor aborted. */
class WaveRound {
 public:
  WaveRound(WaveNumber wave, RecoveryNumber recovery, Roster roster, Now begun, std::uint64_t timeout_ms);

  enum class Verdict { pending, complete, again, failed, late };
  /** Results of a daemon, or of several joined. */
  void done(const WaveDone& message);
  /** A failure decides at once: waiting for the other ranks would gain nothing. */
  Verdict verdict(Now now) const;
  /** @return the reason: of the first rank that failed, or which ranks have not answered */
  std::string why() const;

  WaveNumber wave() const { return wave_; }
  RecoveryNumber recovery() const { return recovery_; }
  Now begun() const { return begun_; }
  std::uint32_t answered() const { return answered_; }
  const Roster& roster() const { return roster_; }
  /** By place in the roster; complete when the wave is. */
  const std::vector<RankImage>& results() const { return results_; }

 private:
  WaveNumber wave_;
  RecoveryNumber recovery_;
  Roster roster_;
  Now begun_;
  std::uint64_t deadline_ms_;
  std::vector<RankImage> results_;
  std::vector<bool> have_;
  std::uint32_t answered_ = 0;
  bool again_ = false, failed_ = false;
  std::string error_;
};

/** Decides when the next wave is due. */
class WaveClock {
 public:
  explicit WaveClock(std::uint64_t interval_ms) : interval_ms_(interval_ms) {}

  /** The ranks run (again): count the interval from now. @param soon a wave follows immediately */
  void running(Now now, bool soon);
  void committed(Now now);
  /** The wave was aborted: try again at the next interval. @param again the reason is temporary: try again soon, then less and less often */
  void aborted(Now now, bool again);
  /** A user asks for a wave now. */
  void request(Now now) { due_ms_ = now.ms; }
  /** The interval is another from now on: the next wave is due so long after @p from_ms. */
  void every(std::uint64_t interval_ms, std::uint64_t from_ms, Now now) {
    interval_ms_ = interval_ms;
    due_ms_ = std::max(now.ms, from_ms + interval_ms);
  }
  /** A wave is due at @p ms at the latest. */
  void no_later_than(std::uint64_t ms) { due_ms_ = std::min(due_ms_.value_or(ms), ms); }
  bool due(Now now) const { return due_ms_ && now.ms >= *due_ms_; }
  std::optional<std::uint64_t> next_ms() const { return due_ms_; }

 private:
  std::uint64_t interval_ms_;
  std::optional<std::uint64_t> due_ms_;
  std::uint64_t failures_ = 0;  ///< consecutive failures with permanent reasons
  std::uint64_t again_ = 0;     ///< consecutive failures with temporary reasons
};

}  // namespace reprise::job
