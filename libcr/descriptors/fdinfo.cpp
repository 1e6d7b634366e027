// SPDX-License-Identifier: LGPL-2.1-or-later
#include "descriptors/fdinfo.h"

#include <fcntl.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/proc_dir.h"

namespace reprise {
namespace {

template <class F>
void for_each_line(const std::string& text, F&& use) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    use(text.substr(at, end - at));
    at = end + 1;
  }
}

std::optional<std::uint64_t> number(const std::string& text, const std::string& key, int base) {
  const std::string field = proc_field(text, key);
  if (field.empty()) return std::nullopt;
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(field.c_str(), &end, base);
  if (end == field.c_str()) return std::nullopt;
  return value;
}

// fdinfo shows the kernel's internal dev_t, (major << 20) | minor; stat(2) encodes it differently.
std::uint64_t dev_from_kernel(std::uint64_t dev) {
  const std::uint64_t major = dev >> 20, minor = dev & 0xfffff;
  return ((major & 0xfffULL) << 8) | ((major & ~0xfffULL) << 32) | (minor & 0xff) | ((minor & ~0xffULL) << 12);
}

}  // namespace

std::optional<EventFdInfo> parse_eventfd(const std::string& text) {
  const auto count = number(text, "eventfd-count:", 16);
  if (!count) return std::nullopt;
  EventFdInfo info;
  info.count = *count;
  if (const auto semaphore = number(text, "eventfd-semaphore:", 10)) info.semaphore = *semaphore != 0;
  return info;
}

std::optional<TimerFd> parse_timerfd(const std::string& text) {
  const auto clock = number(text, "clockid:", 10);
  const auto ticks = number(text, "ticks:", 10);
  const auto flags = number(text, "settime flags:", 8);
  std::int64_t seconds = 0, ns = 0, interval_seconds = 0, interval_ns = 0;
  const std::string value = proc_field(text, "it_value:"), interval = proc_field(text, "it_interval:");
  if (!clock || !ticks || std::sscanf(value.c_str(), "(%" SCNd64 ", %" SCNd64 ")", &seconds, &ns) != 2 ||
      std::sscanf(interval.c_str(), "(%" SCNd64 ", %" SCNd64 ")", &interval_seconds, &interval_ns) != 2)
    return std::nullopt;
  TimerFd timer;
  timer.set_clock(static_cast<int>(*clock));
  timer.set_ticks(*ticks);
  timer.set_settime_flags(static_cast<std::uint32_t>(flags.value_or(0)));
  timer.set_value_ns(seconds * 1'000'000'000 + ns);
  timer.set_interval_ns(interval_seconds * 1'000'000'000 + interval_ns);
  return timer;
}

std::optional<SignalFd> parse_signalfd(const std::string& text) {
  const auto mask = number(text, "sigmask:", 16);
  if (!mask) return std::nullopt;
  SignalFd signals;
  signals.set_mask(*mask);
  return signals;
}

Epoll parse_epoll(const std::string& text) {
  Epoll set;
  for_each_line(text, [&](const std::string& line) {
    int fd = 0;
    unsigned events = 0;
    std::uint64_t data = 0, ino = 0, dev = 0;
    if (std::sscanf(line.c_str(), "tfd: %d events: %x data: %" SCNx64, &fd, &events, &data) != 3) return;
    if (const auto at = line.find(" ino:"); at != std::string::npos)
      std::sscanf(line.c_str() + at, " ino:%" SCNx64 " sdev:%" SCNx64, &ino, &dev);
    auto* entry = set.add_entries();
    entry->set_fd(fd);
    entry->set_events(events);
    entry->set_data(data);
    entry->set_ino(ino);
    entry->set_dev(dev_from_kernel(dev));
  });
  return set;
}

std::optional<pid_t> parse_pidfd(const std::string& text) {
  const std::string field = proc_field(text, "Pid:");
  if (field.empty()) return std::nullopt;
  return static_cast<pid_t>(std::strtol(field.c_str(), nullptr, 10));
}

std::vector<InotifyInfo> parse_inotify(const std::string& text) {
  std::vector<InotifyInfo> all;
  for_each_line(text, [&](const std::string& line) {
    unsigned wd = 0, mask = 0;
    std::uint64_t ino = 0, dev = 0;
    if (std::sscanf(line.c_str(), "inotify wd:%x ino:%" SCNx64 " sdev:%" SCNx64 " mask:%x", &wd, &ino, &dev, &mask) != 4)
      return;
    InotifyInfo info;
    info.watch.set_wd(static_cast<int>(wd));
    info.watch.set_mask(mask);
    info.watch.set_dev(dev_from_kernel(dev));
    info.watch.set_ino(ino);
    if (const auto at = line.find("fhandle-type:"); at != std::string::npos)
      info.handle_type = static_cast<int>(std::strtol(line.c_str() + at + 13, nullptr, 16));
    if (const auto at = line.find("f_handle:"); at != std::string::npos) {
      const std::string hex = line.substr(at + 9);
      for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
        info.handle.push_back(static_cast<char>(std::strtol(hex.substr(i, 2).c_str(), nullptr, 16)));
    }
    all.push_back(std::move(info));
  });
  return all;
}

std::vector<Lock> parse_locks(const std::string& text, bool* lease) {
  std::vector<Lock> all;
  for_each_line(text, [&](const std::string& line) {
    // lock:	1: POSIX  ADVISORY  WRITE 1234 08:01:5678 0 EOF
    char kind[16], advice[16], access[16], end[32];
    std::uint64_t start = 0;
    if (std::sscanf(line.c_str(), "lock: %*d: %15s %15s %15s %*d %*x:%*x:%*u %" SCNu64 " %31s", kind, advice, access,
                    &start, end) != 5)
      return;
    const std::string what = kind;
    if (what != "POSIX" && what != "FLOCK" && what != "OFDLCK") {
      if (lease) *lease = true;
      return;
    }
    Lock lock;
    lock.set_type(std::strcmp(access, "WRITE") == 0 ? F_WRLCK : F_RDLCK);
    lock.set_start(start);
    lock.set_length(std::strcmp(end, "EOF") == 0 ? 0 : std::strtoull(end, nullptr, 10) - start + 1);
    lock.set_ofd(what == "OFDLCK");
    lock.set_flock(what == "FLOCK");
    all.push_back(std::move(lock));
  });
  return all;
}

}  // namespace reprise
