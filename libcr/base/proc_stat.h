// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file /proc/PID/stat and /proc/PID/comm. No heap and no exceptions: libcr.so uses it, too. */
#include <cstdint>
#include <optional>
#include <string_view>

#include <sys/types.h>

namespace reprise {

/** Fields of /proc/PID/stat, see proc_pid_stat(5). */
struct ProcStat {
  char comm[64]{};  ///< NUL-terminated; a program's own name has 15 bytes at most, and may hold anything
  char state = 0;   ///< 'R', 'S', 'D', 'T', 't', 'Z', 'X' …
  pid_t ppid = 0, pgid = 0, sid = 0;
  std::uint32_t tty = 0;            ///< device number of the controlling terminal, 0: none
  pid_t tty_pgid = 0;               ///< foreground process group of that terminal
  std::uint64_t start_ticks = 0;    ///< since boot, in units of sysconf(_SC_CLK_TCK)

  /** Has it ended, and is only waited for? */
  bool ended() const { return state == 'Z' || state == 'X'; }
};

/** @return nothing when @p text is not of such a file */
std::optional<ProcStat> parse_proc_stat(std::string_view text);

/** Of a process or a thread. @return nothing when it is gone, or hidden from us (hidepid) */
std::optional<ProcStat> proc_stat(pid_t pid);

/** @return when it was started, as start_ticks: with the pid that names one process; 0 when it does not run (any more) */
std::uint64_t running_since(pid_t pid);

}  // namespace reprise
