// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The clocks that count from boot: on another machine a time namespace lets them go on (time_namespaces(7)). */
#include <cstdint>
#include <string>

#include <sys/types.h>

#include "image/state.pb.h"

namespace reprise {

/** What a time namespace adds to the machine's clocks, in nanoseconds. */
struct ClockOffsets {
  std::int64_t monotonic = 0, boottime = 0;
  bool operator==(const ClockOffsets&) const = default;
};

/** As this process sees it, in nanoseconds. */
std::int64_t clock_ns(clockid_t clock);

/** Of a process. All 0 where the kernel has no time namespaces. */
ClockOffsets clock_offsets(pid_t pid);

/** Save the machine's clocks, and what the process @p pid sees of them. */
void collect_clocks(pid_t pid, Host& host);

/**
 * What has to be added to this machine's clocks for a process of @p host to see its own go on: from where they were
 * at the checkpoint, plus the time that has passed since by the time of day.
 */
ClockOffsets offsets_for(const Host& host, bool same_boot);

/** As /proc/PID/timens_offsets takes them. */
std::string offsets_text(const ClockOffsets& offsets);

/**
 * Processes that this thread makes from now on live in a new time namespace. Never undone for the thread.
 * @return 0 or errno: EPERM without CAP_SYS_ADMIN and CAP_SYS_TIME, EINVAL where the kernel has none
 */
int enter_time_namespace(const ClockOffsets& offsets);

}  // namespace reprise
