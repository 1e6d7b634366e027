// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The blank process into which a restart restores the image. */
#include <memory>
#include <vector>

#include <sys/types.h>

#include "image/state.pb.h"
#include "base/unique_fd.h"
#include "request/options.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/remote.h"

namespace reprise {

/**
 * A process that only waits: our child, or that of RestartOptions::parent. Unless released, the destructor
 * kills it and, if it is our child, reaps it.
 */
class BlankChild {
 public:
  /**
   * Create the process with the image's pid, or with any pid unless options.restore.restore_pid. Where permitted, it
   * gets a time namespace that continues the image's clocks; otherwise @p report receives a warning.
   * Throws Error (refused) when the pid is in use or setting it is not permitted.
   */
  BlankChild(const Process& image, const RestartOptions& options, Report& report);
  ~BlankChild();
  BlankChild(const BlankChild&) = delete;
  BlankChild& operator=(const BlankChild&) = delete;

  pid_t pid() const { return pid_; }
  /** Bind a session to the process. Throws Error. */
  Session attach();
  /**
   * The destructor leaves the process alone from now on.
   * @param restored  the process, or the processes that were made from it
   */
  void release(const std::vector<pid_t>& restored);
  /** Wait until the process ends by itself, and reap it. @return its status as of waitpid(2) */
  int wait();

  /**
   * Create a session or process group for the target if the image's process led one. Otherwise, where @p options ask
   * for it, join the image's process group, and check that we are in the image's session. The target must be frozen
   * and not committed. Throws Error (refused) when the group or session cannot be restored.
   */
  static void prepare(Remote& remote, const Process& image, const RestoreOptions& options);

 private:
  pid_t make(const Process& image, const RestartOptions& options, const ClockOffsets* offsets);
  void end_maker();

  struct Maker;
  pid_t pid_ = 0;
  ParentProcess* parent_;          ///< nullptr: we reap it
  UniqueFd mem_;                   ///< /proc/PID/mem of a process that is not our child
  bool dies_with_parent_ = false;  ///< a thread of the image has a parent-death signal
  std::unique_ptr<Maker> maker_;   ///< the thread that created the process, if it needs a time namespace
};

}  // namespace reprise
