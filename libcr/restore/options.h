// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file What all code that restores needs to know of the request. */
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

/** Into a live process that changes back only where it differs, or into a blank one. */
enum class RestoreMode { pause, restart };

/** What shall become of memory and mapped files that other live processes share, and that have changed since. */
enum class SharedMemory {
  refuse,   ///< to restore anything
  restore,  ///< rewrite them, as if they were the process's alone
  keep,     ///< leave them as they are, and report that
};

/** What the restoring code of every part needs to know. */
struct RestoreOptions {
  /** Paths beginning with `first` are looked for under `second`; the first match counts. */
  std::vector<std::pair<std::string, std::string>> relocate;
  /** Restart: descriptor number of the image -> descriptor of ours that takes its place (borrowed). */
  std::map<int, int> substitute;
  bool dead_sockets = false;  ///< give sockets and pipes that cannot be remade back as dead ones
  bool rewind_files = false;  ///< cut files that have grown since back to their old size
  SharedMemory shared_memory = SharedMemory::refuse;
  bool restore_pid = true;    ///< restart: with the image's pid and tids
  bool restore_pgid = false;  ///< restart: in the image's process group, also where it did not lead it
  bool restore_sid = false;   ///< restart: in the image's session, also where it did not lead it; only ours can be joined
  bool pipes_from_streams = false;  ///< restart: pipes to other processes become our standard input and output
  bool trust = false;         ///< restart: the image may be anybody's, and what it names is opened with our rights

  /** @return @p path after relocation */
  std::string relocated(const std::string& path) const;
};

}  // namespace reprise
