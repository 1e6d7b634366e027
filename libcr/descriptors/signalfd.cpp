// SPDX-License-Identifier: LGPL-2.1-or-later
//
// signalfds: their only state is the mask. The pending signals belong to the process that reads.
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/error.h"
#include "descriptors/fdinfo.h"
#include "descriptors/kinds.h"

namespace reprise {
namespace {

int set_mask(int fd, std::uint64_t mask, int flags) {
  // Call the kernel directly: the C library's sigset_t is longer than the kernel's.
  return static_cast<int>(::syscall(SYS_signalfd4, fd, &mask, sizeof mask, flags));
}

}  // namespace

void collect_signalfd(Collector& collector, const cr_fd& fd, Description& description) {
  if (const auto info = parse_signalfd(collector.fdinfo(fd.fd)))
    *description.mutable_signalfd() = *info;
  else
    collector.refuse(fd.fd, "a signalfd whose mask the kernel does not show");
}

void make_signalfd(Restorer& restorer, std::uint32_t index) {
  const Description& description = restorer.description(index);
  UniqueFd fd(set_mask(-1, description.signalfd().mask(), SFD_CLOEXEC | (open_flags(description) & SFD_NONBLOCK)));
  if (!fd) restorer.fail(index, "cannot be made", errno);
  restorer.made[index] = std::move(fd);
}

void restore_signalfd_state(Restorer& restorer, std::uint32_t index) {
  if (restorer.made.count(index)) return;
  const std::uint64_t mask = restorer.description(index).signalfd().mask();
  const auto now = parse_signalfd(restorer.fdinfo(index));
  if (now && now->mask() == mask) return;
  if (set_mask(restorer.must_fd(index), mask, 0) < 0) restorer.fail(index, "its mask cannot be set", errno);
}

}  // namespace reprise
