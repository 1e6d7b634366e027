// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Create the blank process for a restart, as a child of the program that requests it. */
#include <sys/types.h>

namespace reprise::api {

/**
 * Create the process, without the program's descriptors, signal handlers and file capabilities.
 * @param pid     pid of the new process; 0: any
 * @param clocks  text for /proc/self/timens_offsets of a new time namespace; "": stay in ours. Without permission for a
 *                new one the process stays in ours too
 * @param mem     receives a descriptor of its /proc/PID/mem, owned by the caller
 * @return pid of the process, or -errno
 */
pid_t make_blank_child(pid_t pid, const char* clocks, int& mem);

/** @return a descriptor of /proc/@p pid/mem, open for reading and writing, or -1 with errno */
int open_memory(pid_t pid);

/** Kill and reap the process, unless the program has reaped it already. */
void end_child(pid_t pid);

}  // namespace reprise::api
