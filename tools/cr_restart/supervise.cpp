// SPDX-License-Identifier: GPL-2.0-only
#include "supervise.h"

#include <cerrno>

#include <sys/wait.h>
#include <unistd.h>

namespace reprise::tool {
namespace {

constexpr int kForwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGALRM};

/** Whether the terminal has sent the signal to the whole foreground process group, including @p pid. */
bool had_it_too(const siginfo_t& info, pid_t pid) { return info.si_code == SI_KERNEL && ::getpgid(pid) == ::getpgrp(); }

/** Reap the first processes of pid namespaces: they have no exit signal. */
void reap_inits() {
  while (::waitpid(-1, nullptr, WNOHANG | __WCLONE) > 0) {
  }
}

[[noreturn]] void die_of(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);
}

}  // namespace

Supervisor::Supervisor() {
  ::sigemptyset(&watched_);
  for (const int signal : kForwarded) ::sigaddset(&watched_, signal);
  ::sigaddset(&watched_, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &watched_, &old_);
}

Supervisor::~Supervisor() { ::sigprocmask(SIG_SETMASK, &old_, nullptr); }

int Supervisor::wait(pid_t pid) {
  for (;;) {
    int status = 0;
    const pid_t got = ::waitpid(pid, &status, WNOHANG | WUNTRACED);
    if (got == pid) {
      if (WIFEXITED(status)) return WEXITSTATUS(status);
      if (WIFSIGNALED(status)) die_of(WTERMSIG(status));
      if (WIFSTOPPED(status)) {
        // Stop like the process, and continue it when we are continued.
        ::raise(SIGSTOP);
        ::kill(pid, SIGCONT);
        continue;
      }
    }
    if (got < 0 && errno == ECHILD) return 0;
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&watched_, &info);
    if (signal > 0 && signal != SIGCHLD && !had_it_too(info, pid)) ::kill(pid, signal);
  }
}

int Supervisor::wait_for_all(std::vector<pid_t> pids) {
  int failed = 0;
  for (;;) {
    reap_inits();
    std::erase_if(pids, [&](pid_t pid) {
      int status = 0;
      const pid_t got = ::waitpid(pid, &status, WNOHANG);
      if (got == pid && failed == 0) failed = status;
      return got == pid || (got < 0 && errno == ECHILD);
    });
    if (pids.empty()) break;
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&watched_, &info);
    if (signal <= 0 || signal == SIGCHLD) continue;
    for (const pid_t pid : pids)
      if (!had_it_too(info, pid)) ::kill(pid, signal);
  }
  if (WIFSIGNALED(failed)) die_of(WTERMSIG(failed));
  return WEXITSTATUS(failed);
}

}  // namespace reprise::tool
