// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file What each request may be asked for. */
#include <cstdint>
#include <functional>
#include <string>

#include <sys/types.h>

#include "base/unique_fd.h"
#include "restore/options.h"
#include "restore/report.h"

namespace reprise {

struct ClockOffsets;

/**
 * Asked, when all is ready that can be made ready without harm, whether the request may go on; waits for @p ms at most.
 * Asked again as long as it says no. Throws Error to give up.
 */
using Hold = std::function<bool(unsigned ms)>;

/**
 * Makes the blank process of a restart as somebody else's child, who reaps it.
 * @param pid      it is to have; 0: any
 * @param offsets  of a time namespace of its own; nullptr: it stays in ours. What fails of that is no failure
 * @param mem      receives its /proc/PID/mem, open for reading and writing
 * @return its pid, or -errno
 */
using MakeChild = std::function<pid_t(pid_t pid, const ClockOffsets* offsets, UniqueFd& mem)>;

/** Bytes of deleted files that are open: they are copied while the process stands still. */
inline constexpr std::uint64_t kDeletedLimit = 1ULL << 30;

struct CheckpointOptions {
  pid_t pid = 0;
  std::string image;            ///< path; "" is context.PID in the working directory
  int image_fd = -1;            ///< written to instead (borrowed); image is then what messages call it, "" if it has no name
  bool clobber = true;          ///< replace an existing image
  bool backup = false;          ///< keep the one that is replaced under another name
  std::string backup_name;      ///< "": IMAGE.~1~, IMAGE.~2~ …, the first that is free
  bool sync = true;             ///< fsync before the image gets its name
  int signal = 0;               ///< sent before any instruction runs after the checkpoint; 0: none
  unsigned timeout_ms = 0;      ///< to stop all threads; 0: 5 s
  unsigned agent_timeout_ms = 0;  ///< for the program's own callbacks; 0: 60 s
  unsigned request_flags = 0;   ///< given to the program's callbacks
  pid_t requester = 0;          ///< who asks, as they hear it; 0: this process
  std::function<void()> told;   ///< called when the program knows: its agent was told, or it stands still
  bool track = true;            ///< note what changes from now on, so that a pause is fast
  std::uint64_t deleted_limit = kDeletedLimit;  ///< bytes of deleted files that are saved at most; 0: none are wanted
  bool split_huge = false;      ///< note it by the page where memory is mapped by huge pages, too, which it then is not
  Progress progress;
};

struct PauseOptions {
  pid_t pid = 0;
  pid_t requester = 0;          ///< as for a checkpoint
  std::string image;
  int image_fd = -1;            ///< read instead (borrowed); image is then what messages call it
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
  int image_fd = -1;            ///< as for a pause
  RestoreOptions restore;
  int signal = 0;               ///< sent when callbacks have returned, where they are waited for; else before it runs
  bool signal_first = false;    ///< sent before it runs in any case
  pid_t requester = 0;          ///< as for a checkpoint
  unsigned callbacks_ms = 0;    ///< how long to wait for the program's own callbacks when it runs; 0: not
  MakeChild make_child;         ///< empty: restart() makes it, and it is our child
  unsigned timeout_ms = 0;
  unsigned request_flags = 0;
  Hold hold;                    ///< when the process has its memory, and no descriptors yet; empty: do not wait
  Progress progress;
};

}  // namespace reprise
