// SPDX-License-Identifier: GPL-2.0-only
#include "crd/orphans.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>

#include "crd/process.h"

namespace reprise::crd {
namespace {

/** @return the children of this process; each is listed by the thread that has made or adopted it */
std::vector<pid_t> children() {
  std::vector<pid_t> all;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream list(task.path() / "children");
    for (pid_t pid = 0; list >> pid;) all.push_back(pid);
  }
  return all;
}

}  // namespace

Orphans::Orphans(asio::io_context& loop) : ended_(loop, SIGCHLD) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  wait();
}

void Orphans::wait() {
  ended_.async_wait([this](const asio::error_code& error, int) {
    if (error) return;
    for (const pid_t pid : children())
      if (!Process::reaps(pid)) ::waitpid(pid, nullptr, WNOHANG);
    wait();
  });
}

}  // namespace reprise::crd
