// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Processes in another pid namespace than the caller's, in which they have other ids. */
#include <sys/types.h>

#include "base/proc_dir.h"
#include "image/state.pb.h"

namespace reprise {

/** Is process @p pid in the caller's pid namespace? */
bool same_pid_namespace(pid_t pid);

/** @return the id that thread @p tid, of the process whose /proc/PID/task @p tasks is, has in its own pid namespace. Throws Error. */
pid_t own_id(const ProcDir& tasks, pid_t tid);

/** Save the threads' ids in the process's own pid namespace where they differ from those in the caller's. */
void collect_own_ids(pid_t pid, Process& process);

}  // namespace reprise
