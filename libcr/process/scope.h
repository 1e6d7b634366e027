// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The processes that a request applies to. */
#include <sys/types.h>

#include <string>
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

/** @return the name of a process's image where none is given, and of each of several */
std::string context_name(pid_t pid);
/** @return the image of @p pid in @p folder, which has those of several processes; "": there is none */
std::string context_in(const std::string& folder, pid_t pid);

}  // namespace reprise
