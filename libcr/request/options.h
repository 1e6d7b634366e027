// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file What a request may be asked for, and what it tells afterwards. */
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace reprise {

/** Into a live process that changes back only where it differs, or into a blank one. */
enum class RestoreMode { pause, restart };

/** Told of bytes done and bytes in all; called from any thread, but never from two at once. */
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/**
 * Asked, when all is ready that can be made ready without harm, whether the request may go on; waits for @p ms at most.
 * Asked again as long as it says no. Throws Error to give up.
 */
using Hold = std::function<bool(unsigned ms)>;

/** What the restoring code of every part needs to know. */
struct RestoreOptions {
  /** Paths beginning with `first` are looked for under `second`; the first match counts. */
  std::vector<std::pair<std::string, std::string>> relocate;
  /** Restart: descriptor number of the image -> descriptor of ours that takes its place (borrowed). */
  std::map<int, int> substitute;
  bool dead_sockets = false;  ///< give sockets and pipes that cannot be remade back as dead ones
  bool rewind_files = false;  ///< cut files that have grown since back to their old size
  bool restore_pid = true;    ///< restart: with the image's pid and tids
  bool trust = false;         ///< restart: the image may be anybody's, and what it names is opened with our rights

  /** @return @p path after relocation */
  std::string relocated(const std::string& path) const;
};

/** What happened, for people, scripts and benchmarks. Times in ns, 0 when the phase was not run. */
struct Report {
  pid_t pid = 0;
  std::string comm;
  std::string image;
  std::uint64_t image_taken_unix_ns = 0;

  std::uint64_t freeze_ns = 0;   ///< until all threads were parked
  std::uint64_t frozen_ns = 0;   ///< how long they stood still, all in all
  std::uint64_t agent_ns = 0;    ///< waiting for the program's own callbacks
  std::uint64_t open_ns = 0;     ///< opening and checking the image's state
  std::uint64_t collect_ns = 0;  ///< looking at what there is
  std::uint64_t snapshot_ns = 0;
  std::uint64_t verify_ns = 0;   ///< checking the content of pages
  std::uint64_t mappings_ns = 0;
  std::uint64_t pages_ns = 0;
  std::uint64_t shared_ns = 0;   ///< shared memory
  std::uint64_t descriptors_ns = 0;
  std::uint64_t process_ns = 0;  ///< environment, signals, timers
  std::uint64_t threads_ns = 0;
  std::uint64_t write_ns = 0;    ///< writing the image behind the running process
  std::uint64_t held_ns = 0;     ///< ready, until it was let go on; not in total_ns
  std::uint64_t total_ns = 0;

  std::uint64_t threads = 0;
  std::uint64_t threads_made = 0;
  std::uint64_t threads_ended = 0;
  std::uint64_t mappings = 0;
  std::uint64_t mappings_changed = 0;
  std::uint64_t descriptors = 0;
  std::uint64_t descriptors_changed = 0;
  std::uint64_t pages = 0;           ///< in the image or snapshot
  std::uint64_t pages_restored = 0;  ///< whose content was put back
  std::uint64_t pages_dropped = 0;   ///< that had been touched since
  std::uint64_t bytes = 0;           ///< size of the image file
  std::uint64_t kernel_bytes = 0;    ///< kernel memory used beside the pages
  std::uint32_t workers = 0;
  /** Descriptor -> bytes in the pipe to another process behind it; a rollback leaves them there. */
  std::map<int, std::uint64_t> pipes;
  bool tracked = false;              ///< only what had changed was looked at

  /** What somebody should know though nothing failed: "file /var/x grew by 12 bytes since: kept" */
  std::vector<std::string> warnings;
};

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
