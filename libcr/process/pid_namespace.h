// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Processes that live in another pid namespace than the caller, and are known by other numbers in there. */
#include <sys/types.h>

#include "image/state.pb.h"

namespace reprise {

/** Does process @p pid have the caller's pid namespace? */
bool same_pid_namespace(pid_t pid);

/** Save by which numbers the threads of @p process know themselves, where those are others than the caller's. */
void collect_own_ids(pid_t pid, Process& process);

}  // namespace reprise
