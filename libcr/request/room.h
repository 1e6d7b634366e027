// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Is there memory for a snapshot? It brings swapped pages back and keeps all of them there. */
#include <sys/types.h>

#include <string>

namespace reprise {

/**
 * @param status   a process's /proc/PID/status
 * @param meminfo  /proc/meminfo
 * @return what speaks against a snapshot of it, "" if nothing does
 */
std::string room_problem(const std::string& status, const std::string& meminfo);

/**
 * Throws Error (temporary) when the process has more memory swapped out than there is room for. The kernel
 * would find that out by itself, but only by ending the largest process, which is most often this one.
 */
void check_room(pid_t pid);

}  // namespace reprise
