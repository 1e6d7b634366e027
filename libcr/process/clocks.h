// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * CLOCK_MONOTONIC and CLOCK_BOOTTIME. After another boot or on another machine a time namespace makes them continue
 * (time_namespaces(7)).
 */
#include <cstdint>
#include <string>

#include <sys/types.h>

#include "image/state.pb.h"

namespace reprise {

/** The offsets of a time namespace from the machine's clocks, in nanoseconds. */
struct ClockOffsets {
  std::int64_t monotonic = 0, boottime = 0;
  bool operator==(const ClockOffsets&) const = default;
};

/** @return @p clock as the calling process sees it, in nanoseconds */
std::int64_t clock_ns(clockid_t clock);

/** @return the offsets of process @p pid; all 0 if the kernel has no time namespaces */
ClockOffsets clock_offsets(pid_t pid);

/** Save the machine's clocks and the offsets of process @p pid. */
void collect_clocks(pid_t pid, Host& host);

/**
 * @return the offsets with which a process of @p host sees its clocks continue: their values at the checkpoint plus the
 * time that has passed since on CLOCK_REALTIME. With @p same_boot the saved offsets, unchanged
 */
ClockOffsets offsets_for(const Host& host, bool same_boot);

/** Format @p offsets for /proc/PID/timens_offsets. */
std::string offsets_text(const ClockOffsets& offsets);

/**
 * Put the future children of the calling thread into a new time namespace. The thread cannot undo this.
 * @return 0 or errno: EPERM without CAP_SYS_ADMIN and CAP_SYS_TIME, EINVAL if the kernel has no time namespaces
 */
int enter_time_namespace(const ClockOffsets& offsets);

}  // namespace reprise
