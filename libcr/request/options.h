// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file What each request may be asked for. */
#include <cstdint>
#include <functional>
#include <string>

#include <sys/types.h>

#include "restore/options.h"
#include "restore/report.h"

namespace reprise {

/**
 * Asked, when all is ready that can be made ready without harm, whether the request may go on; waits for @p ms at most.
 * Asked again as long as it says no. Throws Error to give up.
 */
using Hold = std::function<bool(unsigned ms)>;

struct CheckpointOptions {
  pid_t pid = 0;
  std::string image;            ///< path; "" is context.PID in the working directory
  bool clobber = true;          ///< replace an existing image
  bool sync = true;             ///< fsync before the image gets its name
  int signal = 0;               ///< sent before any instruction runs after the checkpoint; 0: none
  unsigned timeout_ms = 0;      ///< to stop all threads; 0: 5 s
  unsigned agent_timeout_ms = 0;  ///< for the program's own callbacks; 0: 60 s
  unsigned request_flags = 0;   ///< given to the program's callbacks
  bool track = true;            ///< note what changes from now on, so that a pause is fast
  bool split_huge = false;      ///< note it by the page where memory is mapped by huge pages, too, which it then is not
  Progress progress;
};

struct PauseOptions {
  pid_t pid = 0;
  std::string image;
  RestoreOptions restore;
  int signal = 0;               ///< as for a checkpoint
  unsigned timeout_ms = 0;
  unsigned agent_timeout_ms = 0;
  unsigned request_flags = 0;
  bool use_tracking = true;     ///< false: take every page as changed
  Hold hold;                    ///< before anything is done to the process; empty: do not wait
  Progress progress;
};

struct RestartOptions {
  std::string image;
  RestoreOptions restore;
  int signal = 0;
  unsigned timeout_ms = 0;
  unsigned request_flags = 0;
  Hold hold;                    ///< when the process has its memory, and no descriptors yet; empty: do not wait
  Progress progress;
};

}  // namespace reprise
