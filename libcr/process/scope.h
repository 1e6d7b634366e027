// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The processes that a request applies to. */
#include <sys/types.h>

#include <vector>

#include "libcr.h"

namespace reprise {

/**
 * @return the members of process group, session or tree @p id without the caller and without ended processes. A tree
 * lists ancestors before descendants. CR_SCOPE_PROC: @p id itself
 */
std::vector<pid_t> processes_in(cr_scope_t scope, pid_t id);

/** @return the pid of the process that traces @p pid (ptrace); 0 if none */
pid_t tracer_of(pid_t pid);
/** @return the pid of a process that @p pid traces; 0 if none */
pid_t traced_by(pid_t pid);

}  // namespace reprise
