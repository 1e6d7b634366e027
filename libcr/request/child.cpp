// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/child.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <linux/membarrier.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "process/clone_args.h"

namespace reprise {
namespace {

/** Nothing of the C library here: it does not know of this process. Never returns. */
[[noreturn]] void wait_blank(pid_t parent) {
  ::syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::syscall(SYS_getppid) != parent) ::syscall(SYS_exit_group, 1);
  for (;;) ::syscall(SYS_pause);
}

pid_t clone_child(pid_t pid) {
  CloneArgs args{};
  args.flags = CLONE_CLEAR_SIGHAND;
  args.exit_signal = SIGCHLD;
  if (pid) {
    args.set_tid = reinterpret_cast<std::uintptr_t>(&pid);
    args.set_tid_size = 1;
  }
  const pid_t parent = ::getpid();
  const long got = ::syscall(SYS_clone3, &args, sizeof args);
  if (got == 0) wait_blank(parent);
  return got < 0 ? -errno : static_cast<pid_t>(got);
}

std::string owner_of(pid_t pid) {
  char name[32]{};
  const UniqueFd fd(::open(("/proc/" + std::to_string(pid) + "/comm").c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t got = fd ? ::read(fd.get(), name, sizeof name - 1) : 0;
  return got > 1 ? std::string(name, static_cast<std::size_t>(got) - 1) : "another process";
}

}  // namespace

BlankChild::BlankChild(const Process& image, const RestoreOptions& options) {
  IdSoonFree soon_free;
  pid_t got;
  do {
    got = clone_child(options.restore_pid ? image.pid() : 0);
  } while (got == -EEXIST && soon_free(image.pid()));
  if (got > 0) {
    pid_ = got;
    return;
  }
  const std::string pid = std::to_string(image.pid());
  switch (-got) {
    case EEXIST:
      throw Error(Failure::refused, EEXIST,
                  "pid " + pid + " is in use by " + owner_of(image.pid()) +
                      ": wait until that has ended, or use --no-restore-pid");
    case EPERM:
      throw Error(Failure::refused, EPERM,
                  "restoring pid " + pid + " needs CAP_CHECKPOINT_RESTORE: run the command as root, give it that "
                  "capability with setcap cap_checkpoint_restore+ep, or use --no-restore-pid");
    default:
      throw Error(Failure::temporary, -got, "cannot make a process with pid " + pid + ": " + error_text(got));
  }
}

BlankChild::~BlankChild() {
  if (!pid_) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void BlankChild::prepare(Remote& remote, const Process& image) {
  remote.must("closing descriptors", 0, SYS_close_range, 3, ~0U, 0);
  if (image.sid() == image.pid())
    remote.must("a session of its own", 0, SYS_setsid);
  else if (image.pgid() == image.pid())
    remote.must("a process group of its own", 0, SYS_setpgid, 0, 0);
  // Whether the program had registered only newer kernels tell, and one that had must not be refused its barriers.
  remote.call(0, SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}

}  // namespace reprise
