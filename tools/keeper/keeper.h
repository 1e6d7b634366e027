// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file
 * The keeper of a process's snapshots. A snapshot lives as long as the session of the module that has taken it, so a
 * process of its own holds the sessions between commands. It ends with the target, or with the last snapshot.
 */
#include <sys/types.h>

#include "base/unique_fd.h"

namespace reprise::snapshots {

/** Start it as a process of its own. @param listening  see listen_as_keeper() */
void start_keeper(pid_t target, UniqueFd listening);

}  // namespace reprise::snapshots
