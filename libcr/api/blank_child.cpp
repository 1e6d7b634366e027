// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/blank_child.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace reprise::api {
namespace {

struct Capabilities {
  bool all = true;  ///< the caller is root: keep all
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
};

/**
 * Of the program's file capabilities the child keeps only CAP_CHECKPOINT_RESTORE, which clone3() needs for threads with
 * given ids: an image must not gain more capabilities from this child than from one that the helper creates.
 */
Capabilities kept_capabilities() {
  Capabilities kept;
  kept.all = getuid() == 0 || geteuid() == 0;
  if (kept.all || syscall(SYS_capget, &kept.header, kept.data) != 0) return kept;
  std::uint64_t wanted = 1ULL << CAP_CHECKPOINT_RESTORE;
  for (int number = 0; number <= CAP_LAST_CAP; ++number)
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, number, 0, 0) == 1) wanted |= 1ULL << number;
  for (int half = 0; half < 2; ++half) {
    const auto part = static_cast<std::uint32_t>(wanted >> (32 * half));
    kept.data[half].permitted &= part;
    kept.data[half].effective &= part;
    kept.data[half].inheritable &= part;
  }
  return kept;
}

/**
 * Create a time namespace and enter it. unshare(CLONE_NEWTIME) creates one for children only, so join it with setns(2).
 * On failure the process stays in its time namespace.
 */
void enter_time_namespace(const char* clocks) {
  if (syscall(SYS_unshare, CLONE_NEWTIME) != 0) return;
  const long offsets = syscall(SYS_openat, AT_FDCWD, "/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
  if (offsets < 0 || syscall(SYS_write, offsets, clocks, std::strlen(clocks)) < 0) return;
  const long made = syscall(SYS_openat, AT_FDCWD, "/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
  if (made >= 0) syscall(SYS_setns, made, CLONE_NEWTIME);
}

/** Raw system calls only: the C library's state is not valid in a child of a raw clone3(). */
[[noreturn]] void wait_blank(pid_t parent, const char* clocks, Capabilities& kept) {
  if (*clocks != '\0') enter_time_namespace(clocks);
  if (!kept.all) syscall(SYS_capset, &kept.header, kept.data);
  // The helper must be able to trace the child; a process that is not dumpable needs CAP_SYS_PTRACE for that.
  syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
  syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (syscall(SYS_getppid) != parent) syscall(SYS_exit_group, 1);
  // Close all descriptors last: make_blank_child() waits for EOF on its pipe.
  syscall(SYS_close_range, 3, ~0U, 0);
  for (;;) syscall(SYS_pause);
}

}  // namespace

pid_t make_blank_child(pid_t pid, const char* clocks, int& mem) {
  Capabilities kept = kept_capabilities();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -errno;
  // Move the write end above 2: the child closes only descriptors from 3 on.
  const int its_end = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
  const int no_end = its_end < 0 ? errno : 0;
  close(ends[1]);
  clone_args args{};
  args.flags = CLONE_CLEAR_SIGHAND;
  args.exit_signal = SIGCHLD;
  if (pid != 0) {
    args.set_tid = reinterpret_cast<std::uintptr_t>(&pid);
    args.set_tid_size = 1;
  }
  const pid_t parent = getpid();
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  const long made = no_end != 0 ? -1 : syscall(SYS_clone3, &args, sizeof args);
  if (made == 0) wait_blank(parent, clocks, kept);
  const int err = no_end != 0 ? no_end : made < 0 ? errno : 0;
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (its_end >= 0) close(its_end);
  char none;
  while (err == 0 && read(ends[0], &none, 1) < 0 && errno == EINTR) {}
  close(ends[0]);
  if (err != 0) return -err;
  const auto child = static_cast<pid_t>(made);
  mem = open_memory(child);
  if (mem >= 0) return child;
  const int unopened = errno;
  end_child(child);
  return -unopened;
}

int open_memory(pid_t pid) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/mem", pid);
  return open(path, O_RDWR | O_CLOEXEC);
}

void end_child(pid_t pid) {
  siginfo_t info;
  // If it is not our child any more, the program has reaped it and the pid may belong to another process.
  if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return;
  kill(pid, SIGKILL);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {}
}

}  // namespace reprise::api
