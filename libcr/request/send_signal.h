// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The signal that a request sends at its end. */
#include <sys/types.h>

namespace reprise {

/** kill(2). @return 0 or errno */
int send_signal(pid_t pid, int signal);
/** Whether every process dies of @p signal: SIGKILL. */
bool kills(int signal);

}  // namespace reprise
