// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The consequences of a rank's end, and the job's exit code. */
#include <map>

#include "types.h"

namespace reprise::job {

enum class ExitMeaning {
  fine,      ///< the rank has finished its work
  restart,   ///< restart the rank
  end_job,   ///< end the job with code()
};

class Exits {
 public:
  Exits(std::uint32_t ranks, unsigned max_restarts);

  /**
   * A rank has ended.
   * @param initialized MPI_Init was complete
   * @param recoverable images, or a relaunch, could restore it
   * @param wave a committed wave exists, so the job would not start from the beginning
   */
  ExitMeaning exited(Rank rank, int wait_status, bool finalized, bool initialized, bool recoverable, bool wave);
  /** Count restarts from 0 after a committed wave: the job makes progress. */
  void committed() { restarts_.clear(); }
  /** The ranks run again, also those that had ended. */
  void rolled_back();

  bool any() const { return ended_ > 0; }
  bool all() const { return ended_ == has_ended_.size(); }
  bool ended(Rank rank) const { return has_ended_.at(rank); }
  unsigned restarts(Rank rank) const;
  /** Like mpirun's: of the first rank that ended badly; 128+N for signal N. */
  int code() const { return code_; }
  /** "ended with exit code 3", "was killed by signal 11 (Segmentation fault)" */
  static std::string words(int wait_status);

 private:
  std::vector<bool> has_ended_;
  std::size_t ended_ = 0;
  unsigned max_restarts_;
  std::map<Rank, unsigned> restarts_;
  int code_ = 0;
};

}  // namespace reprise::job
