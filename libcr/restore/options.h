// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Options of a request for all code that restores. */
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

/** pause: restore a live process where it differs from the image. restart: restore into a blank process. */
enum class RestoreMode { pause, restart };

/** Treatment of changed memory and mapped files that other live processes share. */
enum class SharedMemory {
  refuse,   ///< refuse the whole request
  restore,  ///< restore their content, as for memory of this process only
  keep,     ///< leave their content unchanged, with a warning
};

/** Options of the restoring code. */
struct RestoreOptions {
  /** Paths below directory `first` are replaced by paths below `second`; the first match counts. */
  std::vector<std::pair<std::string, std::string>> relocate;
  /** Restart: descriptor number of the image -> descriptor of ours that takes its place (borrowed). */
  std::map<int, int> substitute;
  /** Pause: if the image's pipe to another process at one of these numbers is gone, the pipe that the process has there now takes its place. */
  std::set<int> keep_pipes;
  /** Restart: name of kept memory of the image -> descriptor of ours for the memory that takes its place (borrowed). */
  std::map<std::string, int> kept_memory;
  /** Restart: names of kept_memory that get the content that the image has of them (CR_KEPT_COPIED). */
  std::set<std::string> fill_memory;
  bool dead_sockets = false;  ///< replace sockets and pipes that cannot be restored by disconnected ones
  bool rewind_files = false;  ///< truncate files that have grown since to their old size
  SharedMemory shared_memory = SharedMemory::refuse;
  bool restore_pid = true;    ///< restart: with the image's pid and tids
  bool pid_namespace = false; ///< restart of copies: the ids of the image, in a pid namespace of each copy's own
  bool restore_pgid = false;  ///< restart: join the image's process group, if the process did not lead it
  bool restore_sid = false;   ///< restart: refuse unless the process led its session or that session is ours
  bool pipes_from_streams = false;  ///< restart: pipes to other processes become our standard input and output
  /**
   * Restart: accept any user's image, and open the files it names with our own rights. Pause: raise limits, priorities
   * and the OOM score with our own rights; without it the process sets them itself.
   */
  bool trust = false;

  /** @return @p path after relocation */
  std::string relocated(const std::string& path) const;
};

}  // namespace reprise
