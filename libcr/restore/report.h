// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Progress and report of a request. */
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace reprise {

/** Called with bytes done and bytes in total, from any thread, but never from two at once. */
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/** Result of a request, for people, scripts and benchmarks. Times in ns; 0 when the phase did not run. */
struct Report {
  pid_t pid = 0;
  std::string comm;
  std::string image;
  std::uint64_t image_taken_unix_ns = 0;

  std::uint64_t freeze_ns = 0;   ///< until all threads were parked
  std::uint64_t frozen_ns = 0;   ///< total time for which the threads were frozen
  std::uint64_t agent_ns = 0;    ///< waiting for the program's own callbacks
  std::uint64_t open_ns = 0;     ///< opening and checking the image's state
  std::uint64_t collect_ns = 0;  ///< reading and comparing the state of the process
  std::uint64_t snapshot_ns = 0; ///< marking the pages
  std::uint64_t verify_ns = 0;   ///< comparing content with its checksums
  std::uint64_t mappings_ns = 0;
  std::uint64_t pages_ns = 0;
  std::uint64_t shared_ns = 0;   ///< shared memory
  std::uint64_t descriptors_ns = 0;
  std::uint64_t process_ns = 0;  ///< environment, signals, timers
  std::uint64_t threads_ns = 0;
  std::uint64_t write_ns = 0;    ///< writing the image
  std::uint64_t held_ns = 0;     ///< waiting in RestartOptions::hold or PauseOptions::hold; not part of total_ns
  std::uint64_t total_ns = 0;

  std::uint64_t threads = 0;
  std::uint64_t threads_made = 0;
  std::uint64_t threads_ended = 0;
  std::uint64_t mappings = 0;
  std::uint64_t mappings_changed = 0;
  std::uint64_t descriptors = 0;
  std::uint64_t descriptors_changed = 0;
  std::uint64_t pages = 0;           ///< in the image or snapshot
  std::uint64_t pages_inherited = 0; ///< of these, taken from the parent image because they have not changed
  std::uint64_t pages_restored = 0;  ///< pages whose content was restored
  std::uint64_t pages_dropped = 0;   ///< pages touched since the checkpoint that were freed
  std::uint64_t bytes = 0;           ///< size of the image
  std::uint64_t bytes_compressed = 0; ///< size of its file, if it is compressed
  std::vector<std::string> bases;    ///< names of the files that it needs: it is a delta image
  std::uint64_t kernel_bytes = 0;    ///< kernel memory used in addition to the pages
  std::uint32_t workers = 0;
  /** Descriptor of a pipe to another process -> bytes in the pipe; a rollback leaves them there. */
  std::map<int, std::uint64_t> pipes;
  bool tracked = false;              ///< changes were tracked: only changed pages were compared

  /** Notable events of a successful request: "file /var/x grew by 12 bytes since: kept" */
  std::vector<std::string> warnings;
};

}  // namespace reprise
