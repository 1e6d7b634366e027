// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The blank process that a restart is made of. */
#include <memory>

#include <sys/types.h>

#include "image/state.pb.h"
#include "request/options.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/remote.h"

namespace reprise {

/** A child of ours that does nothing but wait; killed and reaped unless released. */
class BlankChild {
 public:
  /**
   * With the image's pid, or any when it is not to be restored, and with its clocks where we may give it a time
   * namespace. Throws Error (refused) when the pid cannot be had.
   */
  BlankChild(const Process& image, const RestoreOptions& options, Report& report);
  ~BlankChild();
  BlankChild(const BlankChild&) = delete;
  BlankChild& operator=(const BlankChild&) = delete;

  pid_t pid() const { return pid_; }
  /** It is no longer blank: leave it alone. */
  void release();

  /** Give it a session and a process group of its own where the image's process led one. Frozen, uncommitted. */
  static void prepare(Remote& remote, const Process& image);

 private:
  pid_t make(const Process& image, const RestoreOptions& options);
  void end_maker();

  struct Maker;
  pid_t pid_ = 0;
  bool dies_with_parent_ = false;  ///< as the image wants it: with the thread that made it
  std::unique_ptr<Maker> maker_;   ///< the thread that made it, when it needs a time namespace
};

}  // namespace reprise
