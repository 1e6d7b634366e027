// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file What the kernel tells of an open file in /proc/PID/fdinfo/N. Text in, structures out. */
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "image/state.pb.h"

namespace reprise {

struct EventFdInfo {
  std::uint64_t count = 0;
  std::optional<bool> semaphore;  ///< newer kernels tell
};
std::optional<EventFdInfo> parse_eventfd(const std::string& text);

std::optional<TimerFd> parse_timerfd(const std::string& text);
std::optional<SignalFd> parse_signalfd(const std::string& text);
Epoll parse_epoll(const std::string& text);
/** pid of a pidfd; -1: its process has ended */
std::optional<pid_t> parse_pidfd(const std::string& text);

struct InotifyInfo {
  Inotify::Watch watch;    ///< without path
  int handle_type = 0;
  std::string handle;      ///< bytes of struct file_handle.f_handle
};
std::vector<InotifyInfo> parse_inotify(const std::string& text);

/** Locks that this description, or the process through it, holds. @p lease is set when one of them is a lease. */
std::vector<Lock> parse_locks(const std::string& text, bool* lease = nullptr);

}  // namespace reprise
