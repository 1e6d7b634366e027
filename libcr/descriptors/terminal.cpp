// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Terminals. A restart replaces them by the caller's own.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "base/proc_stat.h"
#include "base/text.h"
#include "descriptors/classify.h"
#include "descriptors/kinds.h"
#include "descriptors/plan.h"

namespace reprise {
namespace {

// The kernel's struct termios, which is shorter than the C library's.
struct KernelTermios {
  unsigned iflag, oflag, cflag, lflag;
  unsigned char line, cc[19];
};

bool get_settings(int fd, KernelTermios& settings) { return ::ioctl(fd, TCGETS, &settings) == 0; }

/** Set with SIGTTOU blocked, which would stop us if we are not in the terminal's foreground process group. */
bool set_settings(int fd, const KernelTermios& settings) {
  sigset_t block, before;
  sigemptyset(&block);
  sigaddset(&block, SIGTTOU);
  pthread_sigmask(SIG_BLOCK, &block, &before);
  const bool done = ::ioctl(fd, TCSETS, &settings) == 0;
  const int code = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = code;
  return done;
}

}  // namespace

void collect_terminal(Collector& collector, const cr_fd& fd, Description& description) {
  const UniqueFd terminal = collector.source.get(fd.fd);
  KernelTermios settings;
  if (!get_settings(terminal.get(), settings)) {
    // EIO: it is a terminal, but the other side hung up.
    if (errno != EIO) collector.refuse(fd.fd, "a device that cannot be saved (" + description.file().path() + ")");
    return;
  }
  Terminal& saved = *description.mutable_terminal();
  saved.set_termios(&settings, sizeof settings);
  winsize size;
  if (::ioctl(terminal.get(), TIOCGWINSZ, &size) == 0) {
    saved.set_rows(size.ws_row);
    saved.set_columns(size.ws_col);
  }
  // TIOCGPGRP works only in the terminal's own session: take the foreground group from /proc/PID/stat.
  if (const auto stat = proc_stat(collector.source.pid())) {
    const bool ours = stat->tty != 0 && (stat->tty == description.file().rdev() || description.file().path() == "/dev/tty");
    saved.set_controlling(ours);
    if (ours) saved.set_foreground_pgid(stat->tty_pgid);
  }
}

void make_terminal(Restorer& restorer, std::uint32_t index) {
  // O_NONBLOCK: open must not wait for a carrier.
  UniqueFd fd = reopen_path(restorer, index, O_NONBLOCK);
  if (::fcntl(fd.get(), F_SETFL, open_flags(restorer.description(index))) != 0)
    restorer.fail(index, "cannot set its flags", errno);
  restorer.made[index] = std::move(fd);
}

void restore_terminal_state(Restorer& restorer, std::uint32_t index) {
  const std::string& saved = restorer.description(index).terminal().termios();
  KernelTermios wanted, now;
  if (saved.size() != sizeof wanted) return;
  std::memcpy(&wanted, saved.data(), sizeof wanted);
  const int fd = restorer.must_fd(index);
  if (!get_settings(fd, now) || std::memcmp(&now, &wanted, sizeof now) == 0) return;
  // Leave its size as it is: the window was not rolled back.
  if (!set_settings(fd, wanted)) restorer.warn(index, "its settings cannot be restored: " + error_text(errno));
}

void restore_own_terminal_state(Restorer& restorer, int fd, const Description& description) {
  const std::string& saved = description.terminal().termios();
  KernelTermios wanted, now;
  if (saved.size() != sizeof wanted || !get_settings(fd, now)) return;
  std::memcpy(&wanted, saved.data(), sizeof wanted);
  constexpr unsigned typing = ICANON | ECHO | ISIG;
  if ((wanted.lflag & typing) == (now.lflag & typing)) return;
  if (!set_settings(fd, wanted))
    restorer.warnings.push_back("the settings of the terminal cannot be restored: " + error_text(errno));
}

UniqueFd own_terminal(Restorer& restorer, int number, const Description& description) {
  // Standard descriptors become the caller's, even if these are no terminals. Others become our terminal, if any.
  if (number <= 2)
    if (UniqueFd fd{::fcntl(number, F_DUPFD_CLOEXEC, 0)}) return fd;
  const int flags = open_flags(description) & (O_ACCMODE | O_APPEND);
  if (UniqueFd fd{::open("/dev/tty", flags | O_CLOEXEC | O_NOCTTY)}) return fd;
  for (const int own : {0, 1, 2})
    if (::isatty(own))
      if (UniqueFd fd{::fcntl(own, F_DUPFD_CLOEXEC, 0)}) return fd;
  restorer.warnings.push_back("descriptor " + std::to_string(number) + " (" + kind_name(description.kind()) + " " +
                              description.file().path() + "): no terminal here, /dev/null takes its place");
  return UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
}

}  // namespace reprise
