// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/namespaces.h"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <string>
#include <utility>

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "process/clone_args.h"

namespace reprise {
namespace {

/** Runs as the first process of a namespace. Only system calls: it is the child of a raw clone3(). */
[[noreturn]] void be_init(int told) {
  ::prctl(PR_SET_NAME, "cr_init");
  // It must keep neither output open nor a file system busy.
  ::syscall(SYS_dup3, told, 0, 0);
  ::syscall(SYS_close_range, 1, ~0U, 0);
  if (::chdir("/") != 0) ::_exit(1);
  ::setsid();
  ::signal(SIGCHLD, SIG_IGN);  // the kernel reaps what becomes its child
  pid_t copy = 0;
  ssize_t got;
  while ((got = ::read(0, &copy, sizeof copy)) < 0 && errno == EINTR) {
  }
  if (got != sizeof copy) ::_exit(1);  // none was made
  ::close(0);
  pollfd end{static_cast<int>(::syscall(SYS_pidfd_open, copy, 0)), POLLIN, 0};
  while (end.fd >= 0 && ::poll(&end, 1, -1) < 0 && errno == EINTR) {
  }
  ::_exit(0);
}

}  // namespace

PidNamespaces::PidNamespaces(unsigned number) {
  for (unsigned i = 0; i < number; ++i) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail_errno(errno, "a pipe for the new pid namespace");
    const UniqueFd told(ends[0]);
    UniqueFd tell(ends[1]);
    int init = -1;
    CloneArgs args{};
    // No exit signal: no wait() of the caller's sees it.
    args.flags = CLONE_NEWPID | CLONE_PIDFD | CLONE_CLEAR_SIGHAND;
    args.pidfd = reinterpret_cast<std::uintptr_t>(&init);
    const long made = ::syscall(SYS_clone3, &args, sizeof args);
    if (made == 0) be_init(told.get());
    if (made < 0 && errno == EPERM)
      throw Error(Failure::refused, EPERM, "a pid namespace for each copy needs root (CAP_SYS_ADMIN)");
    if (made < 0)
      throw Error(Failure::temporary, errno,
                  "pid namespace " + std::to_string(i + 1) + " of " + std::to_string(number) + " cannot be made: " + error_text(errno));
    all_.push_back({UniqueFd(init), std::move(tell)});
  }
}

void PidNamespaces::release(pid_t pid) {
  for (Namespace& one : all_)
    // Without SIGPIPE if somebody has killed it: the namespace has ended then, and the copy with it.
    if (pollfd gone{one.tell.get(), 0, 0}; ::poll(&gone, 1, 0) == 0 && ::write(one.tell.get(), &pid, sizeof pid) < 0)
      fail_errno(errno, "the first process of a pid namespace cannot be told of the copy");
  all_.clear();
}

}  // namespace reprise
