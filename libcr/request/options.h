// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The options of each request. */
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/unique_fd.h"
#include "image/compression.h"
#include "restore/options.h"
#include "restore/report.h"

namespace reprise {

struct ClockOffsets;

/**
 * Called when all preparations without visible effect are done. Waits at most @p ms milliseconds.
 * @return whether the request may continue; after false it is called again. Throws Error to cancel the request.
 */
using Hold = std::function<bool(unsigned ms)>;

/** Another process than the caller, whose children the restarted ones become, and which must reap them. */
class ParentProcess {
 public:
  virtual ~ParentProcess() = default;
  virtual pid_t pid() const = 0;
  /**
   * Let it create a process that waits.
   * @param pid      pid of the new process; 0: any
   * @param offsets  clock offsets of a new time namespace for it; nullptr: it stays in its parent's. If that namespace
   *                 cannot be created, the process is created without it
   * @param mem      receives its /proc/PID/mem, open for reading and writing
   * @return pid of the new process, or -errno
   */
  virtual pid_t make(pid_t pid, const ClockOffsets* offsets, UniqueFd& mem) = 0;
  /** Let it wait until the process that it has created ends by itself. @return its status as of waitpid(2). Throws Error. */
  virtual int wait() = 0;
  /**
   * Tell it of children that were made in another way.
   * @return /proc/PID/mem of each, open for reading and writing. Throws Error.
   */
  virtual std::vector<UniqueFd> take(const std::vector<pid_t>& children) = 0;
};

/** Default limit on saved bytes of open deleted files, which are copied while the process is frozen. */
inline constexpr std::uint64_t kDeletedLimit = 1ULL << 30;

struct CheckpointOptions {
  pid_t pid = 0;
  std::string image;            ///< path; "": context.PID in the working directory
  int image_fd = -1;            ///< descriptor to write to instead (borrowed); image is then its name in messages or ""
  std::string parent;           ///< image of the same process: save only what has changed since; "": save all
  bool delta = false;           ///< with parent: refer to its pages instead of taking them over, see image/delta.h
  bool clobber = true;          ///< replace an existing image
  bool backup = false;          ///< keep the replaced image under another name
  std::string backup_name;      ///< name of the backup; "": the first free of IMAGE.~1~, IMAGE.~2~ …
  bool sync = true;             ///< fsync before the image gets its name
  Compression compression = {}; ///< of the image
  int signal = 0;               ///< sent when the image is complete, before the target runs again; 0: none
  unsigned timeout_ms = 0;      ///< time to stop all threads; 0: 5 s
  unsigned agent_timeout_ms = 0;  ///< time for the program's own callbacks; 0: 60 s
  unsigned request_flags = 0;   ///< passed to the program's callbacks, see base/request_flags.h
  pid_t requester = 0;          ///< the requester that callbacks see; 0: this process
  std::function<void()> told;   ///< called once the program's agent is notified or, without an agent, it is frozen
  bool track = true;            ///< track changes from now on, so that a pause is fast
  std::uint64_t deleted_limit = kDeletedLimit;  ///< most bytes of deleted files to save; 0: save none
  bool split_huge = false;      ///< split huge pages, to track changes of their memory by 4 KiB page
  int kept_to = -1;             ///< socket (borrowed) that gets the kept memory when the image is complete, see request/hand_over.h
  Progress progress;            ///< of the pages written
};

struct PauseOptions {
  pid_t pid = 0;
  pid_t requester = 0;          ///< as for a checkpoint
  std::string image;
  int image_fd = -1;            ///< read from this descriptor instead (borrowed); image is then its name in messages
  RestoreOptions restore;
  int signal = 0;               ///< sent before the target runs again; 0: none
  unsigned timeout_ms = 0;      ///< as for a checkpoint
  unsigned agent_timeout_ms = 0;  ///< as for a checkpoint
  unsigned request_flags = 0;   ///< as for a checkpoint
  bool use_tracking = true;     ///< false: treat every page as changed
  Hold hold;                    ///< called before the request touches the process; empty: do not wait
  Progress progress;            ///< of the verification of the image
};

struct RestartOptions {
  std::string image;
  int image_fd = -1;            ///< as for a pause
  RestoreOptions restore;
  int signal = 0;               ///< sent after callbacks that callbacks_ms waits for, else before the process runs
  bool signal_first = false;    ///< send the signal before the process runs in any case
  pid_t requester = 0;          ///< as for a checkpoint
  unsigned callbacks_ms = 0;    ///< how long to wait for the program's callbacks after the thaw; 0: do not wait
  ParentProcess* parent = nullptr;  ///< of the new process; nullptr: the caller
  unsigned timeout_ms = 0;      ///< as for a checkpoint
  unsigned request_flags = 0;   ///< as for a checkpoint
  Hold hold;                    ///< called when memory is restored and descriptors are not yet; empty: do not wait
  Progress progress;            ///< of the verification of the image
};

}  // namespace reprise
