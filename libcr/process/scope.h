// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The processes that a request is about. */
#include <sys/types.h>

#include <vector>

#include "libcr.h"

namespace reprise {

/** Members of a process group, session or tree, less the caller; ancestors come before descendants. */
std::vector<pid_t> processes_in(cr_scope_t scope, pid_t id);

/** @return pid of the process that traces @p pid, 0: none */
pid_t tracer_of(pid_t pid);
/** @return pid of a process that @p pid traces, 0: none */
pid_t traced_by(pid_t pid);

}  // namespace reprise
