// SPDX-License-Identifier: LGPL-2.1-or-later
//
// timerfds: with the time that was left, and the ticks that nobody had read.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <time.h>

#include <cerrno>
#include <cstdint>

#include "base/error.h"
#include "base/text.h"
#include "descriptors/fdinfo.h"
#include "descriptors/kinds.h"

#ifndef TFD_IOC_SET_TICKS
#define TFD_IOC_SET_TICKS _IOW('T', 0, std::uint64_t)
#endif

namespace reprise {
namespace {

timespec to_timespec(std::int64_t ns) {
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

}  // namespace

void collect_timerfd(Collector& collector, const cr_fd& fd, Description& description) {
  // An interval timer that has expired stands still until it is read or asked: ask, so that all its ticks count.
  itimerspec left;
  const UniqueFd timer = collector.source.get(fd.fd);
  const auto info = ::timerfd_gettime(timer.get(), &left) == 0 ? parse_timerfd(collector.fdinfo(fd.fd)) : std::nullopt;
  if (!info) {
    collector.refuse(fd.fd, "a timerfd whose state the kernel does not tell");
    return;
  }
  *description.mutable_timerfd() = *info;
  // It may have expired once more between the two looks: it is armed all the same.
  if (info->value_ns() == 0 && (left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0))
    description.mutable_timerfd()->set_value_ns(left.it_value.tv_sec * 1'000'000'000LL + left.it_value.tv_nsec);
}

void make_timerfd(Restorer& restorer, std::uint32_t index) {
  const Description& description = restorer.description(index);
  UniqueFd fd(::timerfd_create(description.timerfd().clock(), TFD_CLOEXEC | (open_flags(description) & TFD_NONBLOCK)));
  if (!fd) restorer.fail(index, "cannot be made", errno);
  restorer.made[index] = std::move(fd);
}

void settle_timerfd(Restorer& restorer, std::uint32_t index) {
  const TimerFd& wanted = restorer.description(index).timerfd();
  const bool armed = wanted.value_ns() != 0;
  if (!armed && wanted.ticks() == 0) {
    if (restorer.made.count(index)) return;
    const auto now = parse_timerfd(restorer.fdinfo(index));
    if (now && now->value_ns() == 0 && now->ticks() == 0 && now->interval_ns() == 0) return;
  }
  const int fd = restorer.must_fd(index);
  std::int64_t value = wanted.value_ns();
  const int flags = static_cast<int>(wanted.settime_flags()) & (TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET);
  if (armed && (flags & TFD_TIMER_ABSTIME)) {
    // An absolute timer stays one, so that it follows the clock's being set, and expires after what was left.
    timespec now;
    if (::clock_gettime(wanted.clock(), &now) != 0) restorer.fail(index, "its clock cannot be read", errno);
    value += now.tv_sec * 1'000'000'000LL + now.tv_nsec;
  }
  const itimerspec spec = {to_timespec(wanted.interval_ns()), to_timespec(value)};
  if (::timerfd_settime(fd, flags, &spec, nullptr) != 0) restorer.fail(index, "cannot be set", errno);
  const std::uint64_t ticks = wanted.ticks();
  if (ticks != 0 && ::ioctl(fd, TFD_IOC_SET_TICKS, &ticks) != 0)
    restorer.warn(index, std::to_string(ticks) + " unread ticks cannot be set: " + error_text(errno));
}

}  // namespace reprise
