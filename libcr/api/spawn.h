// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Start the helper process without visible effects on the program. */
#include <sys/types.h>

#include "api/protocol.h"

namespace reprise::api {

/**
 * Start the helper with the descriptors of @p inherited and no others. It is not a child of the
 * caller: it causes no SIGCHLD and needs no wait(). Does not allocate from the heap.
 * @param path      path of the helper
 * @param inherited descriptors above 2
 * @param detached  with /dev/null as standard streams and in a session of its own; otherwise it keeps the program's
 * @param pid       receives its pid
 * @return 0 or an errno
 */
int spawn_helper(const char* path, const Inherited& inherited, bool detached, pid_t& pid);

/**
 * Find the helper: the environment variable REPRISE_HELPER, the installed one, or the one next to this library.
 * @param path  receives its path, at most @p size bytes
 * @return false when there is none
 */
bool find_helper(char* path, std::size_t size);

}  // namespace reprise::api
