// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The signal that a request may end with. */
#include <sys/types.h>

namespace reprise {

/** @return 0 or errno */
int send_signal(pid_t pid, int signal);
/** Is it one that nothing survives? */
bool kills(int signal);

}  // namespace reprise
