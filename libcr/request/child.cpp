// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/child.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/membarrier.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/proc_dir.h"
#include "base/proc_stat.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "process/clocks.h"
#include "process/clone_args.h"
#include "restore/credentials.h"
#include "request/identity.h"

namespace reprise {
namespace {

/** Capabilities of ours that the blank child keeps. Computed before clone3(): the child cannot use the C library. */
struct Kept {
  bool all = true;  ///< the caller is root: keep all
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
};

/**
 * Of the command's file capabilities the blank child keeps only CAP_CHECKPOINT_RESTORE, which clone3() needs for
 * threads with given ids. A later step sets the program's own capabilities. Until then the user cannot trace the child:
 * ptrace_may_access() requires a superset of its capabilities.
 */
Kept kept_rights() {
  Credentials own = parse_credentials(ProcDir(::getpid()).read("status"));
  Kept kept;
  kept.all = own.uids[0] == 0 || own.uids[1] == 0;
  const std::uint64_t wanted = executed_by(own).permitted | 1ULL << CAP_CHECKPOINT_RESTORE;
  own.permitted &= wanted;
  own.effective &= wanted;
  kept.data = capability_words(own);
  return kept;
}

/** Raw system calls only: the C library's state is not valid in a child of a raw clone3(). Never returns. */
[[noreturn]] void wait_blank(pid_t parent, Kept& kept) {
  if (!kept.all) ::syscall(SYS_capset, &kept.header, kept.data.data());
  // The child inherits that we are not dumpable after an exec with file capabilities. Then not even we could trace it.
  ::syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
  ::syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::syscall(SYS_getppid) != parent) ::syscall(SYS_exit_group, 1);
  // Close all descriptors last: clone_child() waits for EOF on its pipe.
  ::syscall(SYS_close_range, 3, ~0U, 0);
  for (;;) ::syscall(SYS_pause);
}

pid_t clone_child(pid_t pid) {
  Kept kept = kept_rights();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return -errno;
  UniqueFd ready(ends[0]), its_end(ends[1]);
  CloneArgs args{};
  args.flags = CLONE_CLEAR_SIGHAND;
  args.exit_signal = SIGCHLD;
  if (pid) {
    args.set_tid = reinterpret_cast<std::uintptr_t>(&pid);
    args.set_tid_size = 1;
  }
  const pid_t parent = ::getpid();
  const long got = ::syscall(SYS_clone3, &args, sizeof args);
  if (got == 0) wait_blank(parent, kept);
  if (got < 0) return -errno;
  its_end.reset();
  char none;
  while (::read(ready.get(), &none, 1) < 0 && errno == EINTR) {
  }
  return static_cast<pid_t>(got);
}

/** @return the name of process @p pid, "" when there is no such process */
std::string name_of(pid_t pid) {
  const auto stat = proc_stat(pid);
  return stat ? stat->comm : "";
}

/** Describe who uses @p pid. The kernel keeps the id of a process group or session until its last member has exited. */
std::string use_of(pid_t pid) {
  const std::string owner = name_of(pid);
  if (!owner.empty()) return "in use by " + owner;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t other = std::atoi(entry.path().filename().c_str());
    if (other <= 0 || (::getpgid(other) != pid && ::getsid(other) != pid)) continue;
    return std::string("still the id of the ") + (::getsid(other) == pid ? "session" : "process group") + " of process " +
           std::to_string(other) + " (" + name_of(other) + ")";
  }
  return "in use by another process";
}

std::string clocks_jump(bool same_boot, int error) {
  return std::string(same_boot ? "its time namespace cannot be made again"
                               : "the machine was booted since the checkpoint, or is another one") +
         ": the program sees CLOCK_MONOTONIC jump (" +
         (error == EPERM ? "a time namespace needs CAP_SYS_ADMIN and CAP_SYS_TIME" : error_text(error)) + ")";
}

}  // namespace

Session BlankChild::attach() { return mem_ ? Session::attach_mem(std::move(mem_), pid_) : Session::attach(pid_); }

pid_t BlankChild::make(const Process& image, const RestartOptions& options, const ClockOffsets* offsets) {
  const pid_t wanted = options.restore.restore_pid ? image.pid() : 0;
  IdSoonFree soon_free;
  pid_t got;
  do {
    got = parent_ ? parent_->make(wanted, offsets, mem_) : clone_child(wanted);
  } while (got == -EEXIST && soon_free(image.pid()));
  return got;
}

/**
 * A thread that creates the child in another time namespace: unshare(CLONE_NEWTIME) sets the time namespace of all
 * later children of a thread. PR_SET_PDEATHSIG refers to the thread that created the child. So this thread lives on
 * until the child may lose its parent.
 */
struct BlankChild::Maker {
  std::thread thread;
  std::promise<std::vector<UniqueFd>> done;  ///< pidfds of the processes to wait for; none: the thread ends at once
};

BlankChild::BlankChild(const Process& image, const RestartOptions& options, Report& report)
    : parent_(options.parent) {
  for (const Thread& thread : image.threads()) dies_with_parent_ |= thread.pdeath_signal() != 0;
  pid_t got;
  const bool stayed = same_boot(image);
  const ClockOffsets offsets = offsets_for(image.host(), stayed);
  if (offsets == clock_offsets(::getpid())) {
    got = make(image, options, nullptr);
  } else if (parent_) {
    got = make(image, options, &offsets);
    if (got > 0 && !(clock_offsets(got) == offsets)) report.warnings.push_back(clocks_jump(stayed, EPERM));
  } else {
    std::promise<std::pair<int, pid_t>> result;
    auto made = result.get_future();
    maker_ = std::make_unique<Maker>();
    maker_->thread = std::thread([&, result = std::move(result), done = maker_->done.get_future()]() mutable {
      const int error = enter_time_namespace(offsets);
      result.set_value({error, make(image, options, nullptr)});
      for (const UniqueFd& process : done.get()) {
        pollfd end{process.get(), POLLIN, 0};
        while (process && ::poll(&end, 1, -1) < 0 && errno == EINTR) {
        }
      }
    });
    int error;
    std::tie(error, got) = made.get();
    if (error) report.warnings.push_back(clocks_jump(stayed, error));
  }
  if (got > 0) {
    pid_ = got;
    return;
  }
  end_maker();
  const std::string pid = std::to_string(image.pid());
  switch (-got) {
    case EEXIST:
      throw Error(Failure::refused, EEXIST,
                  "pid " + pid + " is " + use_of(image.pid()) +
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
  if (pid_) {
    ::kill(pid_, SIGKILL);
    while (!parent_ && ::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  end_maker();
}

void BlankChild::end_maker() {
  if (!maker_) return;
  maker_->done.set_value({});
  maker_->thread.join();
  maker_.reset();
}

int BlankChild::wait() {
  int status = 0;
  if (parent_) status = parent_->wait();
  while (!parent_ && ::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return status;
}

void BlankChild::release(const std::vector<pid_t>& restored) {
  if (maker_ && dies_with_parent_) {
    // Keep the thread until the processes end: its exit would send the parent-death signal.
    std::vector<UniqueFd> processes;
    for (const pid_t pid : restored) processes.emplace_back(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    maker_->done.set_value(std::move(processes));
    maker_->thread.detach();
    maker_.reset();
  }
  pid_ = 0;
}

void BlankChild::prepare(Remote& remote, const Process& image, const RestoreOptions& options) {
  if (image.sid() == image.pid())
    remote.must("a session of its own", 0, SYS_setsid);
  else if (options.restore_sid && ::getsid(0) != image.sid())
    throw Error(Failure::refused, EPERM,
                "session " + std::to_string(image.sid()) + " cannot be joined: restart it from that session, or leave "
                "--restore-sid out");
  if (image.pgid() == image.pid() && image.sid() != image.pid())
    remote.must("a process group of its own", 0, SYS_setpgid, 0, 0);
  else if (options.restore_pgid && image.pgid() != image.pid() &&
           remote.call(0, SYS_setpgid, 0, static_cast<unsigned long>(image.pgid())) != 0)
    throw Error(Failure::refused, EPERM,
                "process group " + std::to_string(image.pgid()) + " is not one of this session any more: leave "
                "--restore-pgid out");
  // Older images do not record this registration. Register always: without it membarrier(2) fails with EPERM.
  if (!image.has_membarrier()) remote.call(0, SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}

}  // namespace reprise
