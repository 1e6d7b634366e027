// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The calls by which a thread gives itself other credentials. */
#include <sys/types.h>

#include "restore/credentials.h"
#include "session/remote.h"

namespace reprise {

/**
 * Have thread @p tid, which has @p from, give itself @p to, of which why_not() has nothing against. Only what differs is
 * set. Throws Error naming the thread and the call that failed.
 */
void set_credentials(Remote& remote, pid_t tid, const Credentials& from, const Credentials& to);

}  // namespace reprise
