// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What the end of a rank means, and with which code the job ends. */
#include <map>

#include "types.h"

namespace reprise::job {

enum class ExitMeaning {
  fine,      ///< it has done its work
  restart,   ///< bring it back
  end_job,   ///< the job ends with code()
};

class Exits {
 public:
  Exits(std::uint32_t ranks, unsigned max_restarts);

  /**
   * A rank has ended. @p initialized: its MPI was up; @p recoverable: images, or a relaunch, could bring it back;
   * @p wave: a committed wave exists, so that it need not begin anew
   */
  ExitMeaning exited(Rank rank, int wait_status, bool finalized, bool initialized, bool recoverable, bool wave);
  /** After a committed wave restarts are counted anew: the job gets on. */
  void committed() { restarts_.clear(); }
  /** The ranks run again: those that had ended have not. */
  void rolled_back();

  bool any() const { return ended_ > 0; }
  bool all() const { return ended_ == has_ended_.size(); }
  bool ended(Rank rank) const { return has_ended_.at(rank); }
  unsigned restarts(Rank rank) const;
  /** As mpirun's: of the first rank that ended badly; 128+N for signal N. */
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
