// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The consequences of a rank's end, and the job's exit code. */
#include <map>

#include "types.h"

namespace reprise::job {

enum class ExitMeaning {
  fine,      ///< the rank has finished its work
  restart,   ///< restart the rank
  tell,      ///< tell the other ranks: the program deals with it
  end_job,   ///< end the job with code()
};

/** What the job can do about a rank that fails. */
enum class Remedy {
  none,
  images,   ///< images, or a relaunch, could restore it
  program,  ///< the program is told, see JobSpec.tells_failures
};

class Exits {
 public:
  Exits(std::uint32_t ranks, unsigned max_restarts);

  /**
   * A rank has ended.
   * @param initialized MPI_Init was complete
   * @param wave a committed wave exists, so the job would not start from the beginning
   */
  ExitMeaning exited(Rank rank, int wait_status, bool finalized, bool initialized, Remedy remedy, bool wave);
  /** Count restarts from 0: the job makes progress. A wave was committed, or the program says so. */
  void progressed() { restarts_.clear(); }
  /** The ranks run again, also those that had ended. */
  void rolled_back();

  bool any() const { return ended_ > 0; }
  bool all() const { return ended_ == has_ended_.size(); }
  bool ended(Rank rank) const { return has_ended_.at(rank); }
  unsigned restarts(Rank rank) const;
  /** Like mpirun's: of the first rank that ended badly; 128+N for signal N. */
  int code() const { return code_; }
  /** A spawned process has finished its work. If all ranks have failed before, it had taken the place of one. */
  void spawned_finished() { replaced_ = true; }
  /** The code of a job all of whose ranks have ended: 0 if at least one has finished its work, though others have failed. */
  int final_code() const { return told_ == has_ended_.size() && !replaced_ ? told_code_ : 0; }
  /** Of an end that is an error, as mpirun's: an exit without MPI_Finalize while others communicate is one, too. */
  static int code_of(int wait_status);
  /** "ended with exit code 3", "was killed by signal 11 (Segmentation fault)" */
  static std::string words(int wait_status);
  /** The same of an end that is an error: "ended with exit code 0 without MPI_Finalize" */
  static std::string error_words(int wait_status) { return words(wait_status) + (wait_status ? "" : " without MPI_Finalize"); }

 private:
  std::vector<bool> has_ended_;
  std::size_t ended_ = 0;
  unsigned max_restarts_;
  std::map<Rank, unsigned> restarts_;
  int code_ = 0;
  std::size_t told_ = 0;  ///< ranks that have failed, of which the others were told
  int told_code_ = 0;     ///< of the first of them
  bool replaced_ = false;  ///< since the last of these failures a spawned process has finished its work
};

}  // namespace reprise::job
