// SPDX-License-Identifier: GPL-2.0-only
// The ends of a program: the run ends where the process would.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "exit.h"
#include "run.h"

namespace {

int g_quick_status = 0;

[[noreturn]] void exit_at_once(int status) {
  reprise::afl::end(status);
  ::syscall(SYS_exit_group, status);
  __builtin_unreachable();
}

}  // namespace

namespace reprise::afl {

void watch_exits() {
  // The first to be registered are the last to be called: behind all handlers and destructors of the program.
  ::on_exit([](int status, void*) { end(status); }, nullptr);
  ::at_quick_exit([] { end(g_quick_status); });
}

}  // namespace reprise::afl

STANDS_IN void _exit(int status) { exit_at_once(status); }
STANDS_IN void _Exit(int status) noexcept { exit_at_once(status); }
STANDS_IN void quick_exit(int status) noexcept {
  g_quick_status = status;
  REAL(quick_exit)(status);
  __builtin_unreachable();
}
