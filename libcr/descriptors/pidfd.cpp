// SPDX-License-Identifier: LGPL-2.1-or-later
//
// pidfds: the pid is saved in Description.owner_pid.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "base/proc_stat.h"
#include "descriptors/fdinfo.h"
#include "descriptors/kinds.h"

namespace reprise {
namespace {

/** @return the start time of a process, in ns since boot; 0 if unknown */
std::int64_t started_ns(pid_t pid) {
  const auto stat = proc_stat(pid);
  return stat ? static_cast<std::int64_t>(stat->start_ticks) * (1'000'000'000LL / ::sysconf(_SC_CLK_TCK)) : 0;
}

}  // namespace

void collect_pidfd(Collector& collector, const cr_fd& fd, Description& description) {
  if (const auto pid = parse_pidfd(collector.fdinfo(fd.fd)))
    description.set_owner_pid(*pid);
  else
    collector.refuse(fd.fd, "a pidfd whose process the kernel does not show");
}

void make_pidfd(Restorer& restorer, std::uint32_t index) {
  const Description& description = restorer.description(index);
  const pid_t pid = description.owner_pid();
  // PIDFD_NONBLOCK is O_NONBLOCK, PIDFD_THREAD is O_EXCL.
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, description.flags() & (O_NONBLOCK | O_EXCL))));
  if (!fd) restorer.fail(index, "process " + std::to_string(pid), errno);
  // The pid may have been reused.
  if (pid != restorer.source.pid() && started_ns(pid) > restorer.image.host().boottime_ns())
    restorer.fail(index, "process " + std::to_string(pid) + " of the checkpoint", ESRCH);
  restorer.made[index] = std::move(fd);
}

}  // namespace reprise
