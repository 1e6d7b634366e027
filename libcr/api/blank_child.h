// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The blank process that a restart is made of, as a child of the program that asks for it. */
#include <sys/types.h>

namespace reprise::api {

/**
 * Make it, without the program's descriptors, handlers and what capabilities it has from its file.
 * @param pid     it is to have; 0: any
 * @param clocks  for /proc/self/timens_offsets; "": it stays in our time namespace. It stays there, too, where it may
 *                have none of its own
 * @param mem     receives its /proc/PID/mem
 * @return its pid, or -errno
 */
pid_t make_blank_child(pid_t pid, const char* clocks, int& mem);

/** End it unless somebody has reaped it. */
void end_child(pid_t pid);

}  // namespace reprise::api
