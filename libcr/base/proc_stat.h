// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Read /proc/PID/stat. No heap and no exceptions, because libcr.so uses it too. */
#include <cstdint>
#include <optional>
#include <string_view>

#include <sys/types.h>

namespace reprise {

/** Fields of /proc/PID/stat, see proc_pid_stat(5). */
struct ProcStat {
  char comm[64]{};  ///< NUL-terminated; a user task's name has at most 15 bytes, of any value
  char state = 0;   ///< 'R', 'S', 'D', 'T', 't', 'Z', 'X' …
  pid_t ppid = 0, pgid = 0, sid = 0;
  std::uint32_t tty = 0;            ///< device number of the controlling terminal, 0: none
  pid_t tty_pgid = 0;               ///< foreground process group of that terminal
  std::uint32_t flags = 0;          ///< PF_… of the kernel
  std::uint64_t start_ticks = 0;    ///< start time since boot, in ticks of sysconf(_SC_CLK_TCK)

  /** Whether the process has exited (a zombie or dead). */
  bool ended() const { return state == 'Z' || state == 'X'; }
  /** Whether it exits, or has: a thread closes its descriptors after that has begun, and before anybody can wait for it. */
  bool exiting() const { return flags & kExiting || ended(); }

  static constexpr std::uint32_t kExiting = 0x4;  ///< PF_EXITING (include/linux/sched.h)
};

/** @return nothing when @p text does not have the format of /proc/PID/stat */
std::optional<ProcStat> parse_proc_stat(std::string_view text);

/** Status of a process or a thread. @return nothing when it does not exist or is hidden (mount option hidepid) */
std::optional<ProcStat> proc_stat(pid_t pid);

/** @return start_ticks of a running process, 0 when it has exited. Pid and start time together identify one process. */
std::uint64_t running_since(pid_t pid);

}  // namespace reprise
