// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Check for enough memory for a snapshot, which swaps all pages in and keeps them in memory. */
#include <sys/types.h>

#include <string>

namespace reprise {

/**
 * @param status   content of the process's /proc/PID/status
 * @param meminfo  content of /proc/meminfo
 * @return why a snapshot of the process cannot be taken, "" if it can
 */
std::string room_problem(const std::string& status, const std::string& meminfo);

/**
 * Throw Error (temporary) when the process has more memory swapped out than is available. Without this check
 * the kernel's OOM killer would end the largest process, which is usually the target.
 */
void check_room(pid_t pid);

}  // namespace reprise
