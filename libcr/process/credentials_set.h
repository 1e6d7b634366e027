// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The system calls with which a thread changes its own credentials. */
#include <sys/types.h>

#include "restore/credentials.h"
#include "session/remote.h"

namespace reprise {

/**
 * Change the credentials of thread @p tid from @p from to @p to, which why_not() must have accepted. Only what differs
 * is set. Throws Error naming the thread and the call that failed.
 */
void set_credentials(Remote& remote, pid_t tid, const Credentials& from, const Credentials& to);

}  // namespace reprise
