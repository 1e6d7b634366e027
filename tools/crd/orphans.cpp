// SPDX-License-Identifier: GPL-2.0-only
#include "crd/orphans.h"

#include <csignal>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crd/process.h"

namespace reprise::crd {

Orphans::Orphans(asio::io_context& loop) : ended_(loop, SIGCHLD) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  wait();
}

void Orphans::wait() {
  ended_.async_wait([this](const asio::error_code& error, int) {
    if (error) return;
    for (const pid_t pid : children_of(::getpid()))
      if (!Process::reaps(pid)) ::waitpid(pid, nullptr, WNOHANG);
    wait();
  });
}

}  // namespace reprise::crd
