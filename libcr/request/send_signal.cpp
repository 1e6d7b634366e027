// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/send_signal.h"

#include <cerrno>
#include <csignal>

namespace reprise {

int send_signal(pid_t pid, int signal) { return ::kill(pid, signal) == 0 ? 0 : errno; }
bool kills(int signal) { return signal == SIGKILL; }

}  // namespace reprise
