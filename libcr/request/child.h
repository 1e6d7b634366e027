// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The blank process that a restart is made of. */
#include <memory>

#include <sys/types.h>

#include "image/state.pb.h"
#include "base/unique_fd.h"
#include "request/options.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/remote.h"

namespace reprise {

/** A child of ours, or of who asks, that does nothing but wait; killed, and reaped when ours, unless released. */
class BlankChild {
 public:
  /**
   * With the image's pid, or any when it is not to be restored, and with its clocks where we may give it a time
   * namespace. Throws Error (refused) when the pid cannot be had.
   */
  BlankChild(const Process& image, const RestartOptions& options, Report& report);
  ~BlankChild();
  BlankChild(const BlankChild&) = delete;
  BlankChild& operator=(const BlankChild&) = delete;

  pid_t pid() const { return pid_; }
  Session attach();
  /** It is no longer blank: leave it alone. */
  void release();

  /**
   * Give it a session and a process group of its own where the image's process led one, and those of the image where
   * that is asked for. Frozen, uncommitted. Throws Error (refused) when they cannot be had.
   */
  static void prepare(Remote& remote, const Process& image, const RestoreOptions& options);

 private:
  pid_t make(const Process& image, const RestartOptions& options, const ClockOffsets* offsets);
  void end_maker();

  struct Maker;
  pid_t pid_ = 0;
  bool ours_ = true;               ///< our child: we reap it
  UniqueFd mem_;                   ///< of one that is not
  bool dies_with_parent_ = false;  ///< as the image wants it: with the thread that made it
  std::unique_ptr<Maker> maker_;   ///< the thread that made it, when it needs a time namespace
};

}  // namespace reprise
