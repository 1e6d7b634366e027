// SPDX-License-Identifier: LGPL-2.1-or-later
//
// timerfds: saved with the remaining time and the unread ticks.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <time.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <thread>

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

/** No time left and no ticks: the timer is disarmed, or it is due and its interrupt has not been handled yet. */
bool doubtful(const TimerFd& timer) { return timer.value_ns() == 0 && timer.ticks() == 0; }

std::optional<TimerFd> look(Collector& collector, int fd) {
  // An expired interval timer is not advanced until it is read or queried: query it, so that all its ticks count.
  itimerspec left;
  const UniqueFd timer = collector.source.get(fd);
  auto info = ::timerfd_gettime(timer.get(), &left) == 0 ? parse_timerfd(collector.fdinfo(fd)) : std::nullopt;
  if (!info || info->value_ns() != 0) return info;
  // It may have expired again between the two queries, but is armed nevertheless. So is an interval timer that has
  // ticked: it is due.
  info->set_value_ns(left.it_value.tv_sec * 1'000'000'000LL + left.it_value.tv_nsec);
  if (info->value_ns() == 0 && info->ticks() != 0 && info->interval_ns() != 0) info->set_value_ns(1);
  return info;
}

}  // namespace

void collect_timerfd(Collector& collector, const cr_fd& fd, Description& description) {
  if (const auto info = look(collector, fd.fd))
    *description.mutable_timerfd() = *info;
  else
    collector.refuse(fd.fd, "a timerfd whose state the kernel does not show");
}

void finish_timerfds(Collector& collector, const std::map<std::uint32_t, int>& numbers) {
  using namespace std::chrono_literals;
  // An interrupt arrives within microseconds, on virtual machines within some milliseconds. A disarmed timer rarely has
  // an interval, so wait longer for one that has.
  constexpr auto kOnce = 2ms, kInterval = 50ms;
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& [index, number] : numbers) {
    Description& description = *collector.image.mutable_descriptions(static_cast<int>(index));
    while (description.has_timerfd() && doubtful(description.timerfd())) {
      const auto now = std::chrono::steady_clock::now();
      const auto info = look(collector, number);
      if (info) *description.mutable_timerfd() = *info;
      if (!info || now - begin > (info->interval_ns() ? kInterval : kOnce)) break;
      std::this_thread::sleep_for(200us);
    }
  }
}

void make_timerfd(Restorer& restorer, std::uint32_t index) {
  const Description& description = restorer.description(index);
  UniqueFd fd(::timerfd_create(description.timerfd().clock(), TFD_CLOEXEC | (open_flags(description) & TFD_NONBLOCK)));
  if (!fd) restorer.fail(index, "cannot be made", errno);
  restorer.made[index] = std::move(fd);
}

void restore_timerfd_state(Restorer& restorer, std::uint32_t index) {
  const TimerFd& wanted = restorer.description(index).timerfd();
  const bool armed = wanted.value_ns() != 0;
  // Always set a live one: it may be due, which fdinfo does not show.
  if (!armed && wanted.ticks() == 0 && wanted.interval_ns() == 0 && restorer.made.count(index)) return;
  const int fd = restorer.must_fd(index);
  std::int64_t value = wanted.value_ns();
  const int flags = static_cast<int>(wanted.settime_flags()) & (TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET);
  if (armed && (flags & TFD_TIMER_ABSTIME)) {
    // Keep an absolute timer absolute, so that it follows clock changes. It expires after the remaining time.
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
