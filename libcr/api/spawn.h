// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Starting the helper process unnoticed by the program. */
#include <sys/types.h>

#include "api/protocol.h"

namespace reprise::api {

/**
 * Start the helper with the descriptors of @p inherited and no others. It is no child of the
 * caller: no SIGCHLD, nothing to wait for. Does not allocate from the heap.
 * @param inherited numbers above 2
 * @param detached without the program's standard streams and session; else it keeps both
 * @param pid receives its pid
 * @return 0 or an errno
 */
int spawn_helper(const char* path, const Inherited& inherited, bool detached, pid_t& pid);

/** Where the helper is: REPRISE_HELPER, the installed one, or beside this library. @return false: nowhere */
bool find_helper(char* path, std::size_t size);

}  // namespace reprise::api
