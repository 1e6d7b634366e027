// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Parses the text of /proc/PID/fdinfo/N. */
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "image/state.pb.h"

namespace reprise {

struct EventFdInfo {
  std::uint64_t count = 0;
  std::optional<bool> semaphore;  ///< since Linux 6.5
};
std::optional<EventFdInfo> parse_eventfd(const std::string& text);

std::optional<TimerFd> parse_timerfd(const std::string& text);
std::optional<SignalFd> parse_signalfd(const std::string& text);
Epoll parse_epoll(const std::string& text);
/** @return the pid of a pidfd; -1: its process has ended */
std::optional<pid_t> parse_pidfd(const std::string& text);

struct InotifyInfo {
  Inotify::Watch watch;    ///< without path
  int handle_type = 0;
  std::string handle;      ///< bytes of struct file_handle.f_handle
};
std::vector<InotifyInfo> parse_inotify(const std::string& text);

/** @return the locks of the description, or of the process through it. Sets @p lease if one is a lease. */
std::vector<Lock> parse_locks(const std::string& text, bool* lease = nullptr);

}  // namespace reprise
