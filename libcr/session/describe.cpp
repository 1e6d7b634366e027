// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cerrno>
#include <cstdio>

#include "base/proc_stat.h"
#include "base/text.h"
#include "session/session.h"

namespace reprise {
namespace {

/** @return " (name)" of a process or thread, "" when its name cannot be read */
std::string name_of(std::uint64_t id) {
  const auto stat = proc_stat(static_cast<pid_t>(id));
  return stat ? std::string(" (") + stat->comm + ")" : "";
}

std::string thread(std::uint64_t tid) { return "thread " + std::to_string(tid) + name_of(tid); }
std::string process(std::uint64_t pid) { return "process " + std::to_string(pid) + name_of(pid); }

}  // namespace

std::string describe(const cr_why& why, int err) {
  const std::uint64_t arg = why.arg;
  switch (why.reason) {
    case CR_WHY_NOT_MEM_FD:
      return "descriptor " + std::to_string(arg) + " is not a /proc/PID/mem opened for reading and writing";
    case CR_WHY_SELF:
      return "process " + std::to_string(arg) + " is the caller itself: ask from another process";
    case CR_WHY_GONE:
      return "process " + std::to_string(arg) + " has exited or started another program meanwhile";
    case CR_WHY_KTHREAD:
      return process(arg) + " is a kernel thread: it has no memory of its own to save";
    case CR_WHY_INIT:
      return process(arg) + " is the init process of its pid namespace: choose another process";
    case CR_WHY_COMPAT:
      return thread(arg) + " runs 32-bit code, which is not supported: use a 64-bit build of the program";
    case CR_WHY_IO_URING:
      return thread(arg) + " uses io_uring, which cannot be saved: switch io_uring off in the program's configuration";
    case CR_WHY_SECCOMP:
      return thread(arg) + " is confined by seccomp, which cannot be saved: start the program without its sandbox";
    case CR_WHY_SHARED_MM:
      return "its memory is shared with " + process(arg) + " (vfork or clone): try again once that has ended";
    case CR_WHY_STUCK:
      return thread(arg) + " did not stop in time (waiting for a device or file system): try again later or raise --timeout";
    case CR_WHY_STOPPED:
      return thread(arg) + " is stopped by a signal: let it go on with kill -CONT first";
    case CR_WHY_TRACED:
      return thread(arg) + " is being traced: detach its debugger or strace first";
    case CR_WHY_BUSY:
      return "another request, of " + process(arg) + ", holds the process: try again when that is done";
    case CR_WHY_TOO_MANY:
      return "it has " + std::to_string(arg) + " threads; at most " + std::to_string(CR_MAX_THREADS) + " are supported";
    case CR_WHY_LEADER_DEAD:
      return "the main thread of process " + std::to_string(arg) +
             " has ended while others run on, which is not supported";
    case CR_WHY_ADDRESS:
      return "address " + hex(arg) + " cannot be used: " + error_text(err);
    case CR_WHY_AIO:
      return process(arg) + " uses kernel AIO (io_setup), which cannot be saved: switch it off in the program's "
             "configuration";
    case CR_WHY_THREAD:
      return "there is no stopped thread " + std::to_string(arg) + " in the process";
    case CR_WHY_SHADOW_STACK:
      return thread(arg) + " uses a shadow stack, which is not supported: start the program with "
             "GLIBC_TUNABLES=glibc.cpu.x86_shstk=off";
    case CR_WHY_DISPATCH:
      return thread(arg) + " uses syscall user dispatch (Wine does), which cannot be saved: run the program without it";
    case CR_WHY_LEASE:
      return process(arg) + " stands still because the lease of its daemon has run out: it goes on when the daemon answers again, or ends";
    case CR_WHY_SNAPSHOT_LIMIT:
      return "a snapshot of its pages would go over the " + std::to_string(arg) +
             " bytes that the snapshots of one user may keep: let other requests end first, or have "
             "/sys/module/cr/parameters/snapshot_limit raised";
    default:
      break;
  }
  switch (err < 0 ? -err : err) {
    case ENOTCONN:
      return "the process is not frozen (any more): the time limit of the freeze has passed";
    case ESRCH:
      return "no such process";
    case ENXIO:
      return "its snapshot was dropped because memory ran out: take another one";
    case EDQUOT:
      return "the ceiling of what one user may hold is reached (max_sessions, max_threads of the module cr): end other "
             "requests, or have the administrator raise it";
    default:
      return error_text(err);
  }
}

}  // namespace reprise
