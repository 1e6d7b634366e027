// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/clocks.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <ctime>

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/unique_fd.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

namespace reprise {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

/** @return the target of the link @p proc /ns/ @p name, "" if it cannot be read */
std::string namespace_of(const std::string& proc, const char* name) {
  char text[64];
  const ssize_t got = ::readlink((proc + "/ns/" + name).c_str(), text, sizeof text);
  return got > 0 ? std::string(text, static_cast<std::size_t>(got)) : std::string();
}

/** @return @p clock without the offset of our time namespace */
std::int64_t host_ns(clockid_t clock) {
  const ClockOffsets own = clock_offsets(::getpid());
  return clock_ns(clock) - (clock == CLOCK_MONOTONIC ? own.monotonic : own.boottime);
}

/** One line of timens_offsets. The kernel wants nanoseconds from 0 to 999999999, also with negative seconds. */
std::string line(const char* clock, std::int64_t ns) {
  std::int64_t seconds = ns / kSecond, rest = ns % kSecond;
  if (rest < 0) rest += kSecond, --seconds;
  return std::string(clock) + " " + std::to_string(seconds) + " " + std::to_string(rest) + "\n";
}

}  // namespace

std::int64_t clock_ns(clockid_t clock) {
  timespec ts{};
  ::clock_gettime(clock, &ts);
  return ts.tv_sec * kSecond + ts.tv_nsec;
}

ClockOffsets clock_offsets(pid_t pid) {
  const std::string proc = "/proc/" + std::to_string(pid);
  ClockOffsets offsets;
  // timens_offsets shows the namespace of the process's children (time_for_children), not its own.
  const std::string own = namespace_of(proc, "time"), children = namespace_of(proc, "time_for_children");
  if (own != children && own == namespace_of("/proc/self", "time")) return clock_offsets(::getpid());
  std::FILE* file = std::fopen((proc + "/timens_offsets").c_str(), "re");
  if (!file) return offsets;
  char clock[32];
  std::int64_t seconds, ns;
  while (std::fscanf(file, "%31s %" SCNd64 " %" SCNd64, clock, &seconds, &ns) == 3) {
    // Older kernels print the clock's number, newer ones its name.
    const std::string name = clock;
    if (name == "monotonic" || name == "1") offsets.monotonic = seconds * kSecond + ns;
    if (name == "boottime" || name == "7") offsets.boottime = seconds * kSecond + ns;
  }
  std::fclose(file);
  return offsets;
}

void collect_clocks(pid_t pid, Host& host) {
  const ClockOffsets offsets = clock_offsets(pid);
  host.set_monotonic_ns(host_ns(CLOCK_MONOTONIC));
  host.set_boottime_ns(host_ns(CLOCK_BOOTTIME));
  host.set_realtime_ns(clock_ns(CLOCK_REALTIME));
  host.set_monotonic_offset_ns(offsets.monotonic);
  host.set_boottime_offset_ns(offsets.boottime);
}

ClockOffsets offsets_for(const Host& host, bool same_boot) {
  ClockOffsets offsets{host.monotonic_offset_ns(), host.boottime_offset_ns()};
  if (same_boot) return offsets;
  const std::int64_t since = std::max<std::int64_t>(clock_ns(CLOCK_REALTIME) - host.realtime_ns(), 0);
  offsets.monotonic += host.monotonic_ns() + since - host_ns(CLOCK_MONOTONIC);
  offsets.boottime += host.boottime_ns() + since - host_ns(CLOCK_BOOTTIME);
  return offsets;
}

std::string offsets_text(const ClockOffsets& offsets) {
  return line("monotonic", offsets.monotonic) + line("boottime", offsets.boottime);
}

int enter_time_namespace(const ClockOffsets& offsets) {
  if (::unshare(CLONE_NEWTIME) != 0) return errno;
  // Not /proc/self, which is the thread group leader: unshare() changed only this thread.
  const std::string path = "/proc/" + std::to_string(::syscall(SYS_gettid)) + "/timens_offsets";
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return errno;
  const std::string text = offsets_text(offsets);
  return ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : errno;
}

}  // namespace reprise
