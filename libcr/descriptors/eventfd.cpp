// SPDX-License-Identifier: LGPL-2.1-or-later
//
// eventfds: a counter, and whether a read returns all of it or 1 (EFD_SEMAPHORE).
#include <sys/eventfd.h>
#include <unistd.h>

#include <poll.h>

#include <cerrno>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "descriptors/fdinfo.h"
#include "descriptors/kinds.h"

namespace reprise {
namespace {

constexpr std::uint64_t kMostReads = 1U << 20;  // most reads to decrement a semaphore, which takes one each

bool take(int fd, std::uint64_t& value) {
  // Never block, whatever the file status flags: they are shared with the target, so O_NONBLOCK must not be set.
  pollfd state = {fd, POLLIN, 0};
  return ::poll(&state, 1, 0) == 1 && (state.revents & POLLIN) && ::read(fd, &value, sizeof value) == sizeof value;
}

bool give(int fd, std::uint64_t value) { return value == 0 || ::write(fd, &value, sizeof value) == sizeof value; }

/** fdinfo shows EFD_SEMAPHORE only since Linux 6.5: on older kernels read the counter, then restore it. */
std::optional<bool> probe_semaphore(int fd, std::uint64_t count) {
  const std::uint64_t lent = count >= 2 ? 0 : 2 - count;
  if (!give(fd, lent)) return std::nullopt;
  std::uint64_t taken = 0;
  if (!take(fd, taken)) return std::nullopt;
  const bool semaphore = taken == 1;
  if (!semaphore) return give(fd, count) ? std::optional(false) : std::nullopt;
  // The read took 1 of count + lent.
  std::uint64_t rest = lent;
  if (rest == 0) return give(fd, 1) ? std::optional(true) : std::nullopt;
  while (--rest > 0)
    if (!take(fd, taken)) return std::nullopt;
  return true;
}

}  // namespace

void collect_eventfd(Collector& collector, const cr_fd& fd, Description& description) {
  const auto info = parse_eventfd(collector.fdinfo(fd.fd));
  if (!info) {
    collector.refuse(fd.fd, "an eventfd whose counter the kernel does not show");
    return;
  }
  auto semaphore = info->semaphore;
  if (!semaphore) semaphore = probe_semaphore(collector.source.get(fd.fd).get(), info->count);
  if (!semaphore) {
    collector.refuse(fd.fd, "an eventfd of which it cannot be determined whether it is a semaphore");
    return;
  }
  description.mutable_eventfd()->set_count(info->count);
  description.mutable_eventfd()->set_semaphore(*semaphore);
}

void make_eventfd(Restorer& restorer, std::uint32_t index) {
  const Description& description = restorer.description(index);
  const int flags = EFD_CLOEXEC | (open_flags(description) & EFD_NONBLOCK) |
                    (description.eventfd().semaphore() ? EFD_SEMAPHORE : 0);
  UniqueFd fd(::eventfd(0, flags));
  if (!fd) restorer.fail(index, "cannot be made", errno);
  restorer.made[index] = std::move(fd);
}

void restore_eventfd_state(Restorer& restorer, std::uint32_t index) {
  const EventFd& wanted = restorer.description(index).eventfd();
  std::uint64_t now = 0;
  if (!restorer.made.count(index)) {
    const auto info = parse_eventfd(restorer.fdinfo(index));
    if (!info) restorer.fail(index, "its counter cannot be read", EIO);
    now = info->count;
  }
  if (now == wanted.count()) return;
  const int fd = restorer.must_fd(index);
  std::uint64_t taken;
  if (wanted.semaphore()) {
    if (now > wanted.count() && now - wanted.count() > kMostReads)
      restorer.fail(index, "its counter is too high to be decremented step by step", EOVERFLOW);
    for (; now > wanted.count(); --now)
      if (!take(fd, taken)) restorer.fail(index, "its counter cannot be decremented", errno);
    if (!give(fd, wanted.count() - now)) restorer.fail(index, "cannot be set", errno);
    return;
  }
  while (take(fd, taken)) {
  }
  if (!give(fd, wanted.count())) restorer.fail(index, "cannot be set", errno);
}

}  // namespace reprise
