// SPDX-License-Identifier: GPL-2.0-only
// Where a network server waits for its first connection, and where it closes it.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include "run.h"

namespace {

using reprise::afl::At;

// Part of the target's memory, and so rolled back with it.
std::atomic<int> g_listening{-1};
std::atomic<int> g_connection{-1};

/** The server is about to wait, for a connection too if it listens by now. */
void at_wait() {
  const int listening = g_listening.load();
  if (listening < 0 || reprise::afl::at() != At::accept) return;
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* const bound = reinterpret_cast<sockaddr*>(&address);
  if (::getsockname(listening, bound, &size) == 0) reprise::afl::begin(bound, size);
}

int accepted(int listening, int connection) {
  if (connection >= 0 && listening == g_listening) g_connection = connection;
  return connection;
}

void at_close(int fd) {
  if (fd >= 0 && fd == g_connection) reprise::afl::end(0, true);
  if (fd >= 0 && fd == g_listening) g_listening = -1;
}

}  // namespace

STANDS_IN int listen(int fd, int backlog) noexcept {
  const int result = REAL(listen)(fd, backlog);
  if (result == 0 && g_listening < 0) g_listening = fd;
  return result;
}
STANDS_IN int accept(int fd, sockaddr* address, socklen_t* size) {
  at_wait();
  return accepted(fd, REAL(accept)(fd, address, size));
}
STANDS_IN int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  at_wait();
  return accepted(fd, REAL(accept4)(fd, address, size, flags));
}

#define WAITS(name, declared, passed) \
  STANDS_IN int name declared {       \
    at_wait();                        \
    return REAL(name) passed;         \
  }

WAITS(poll, (pollfd* fds, nfds_t count, int timeout), (fds, count, timeout))
WAITS(ppoll, (pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask), (fds, count, timeout, mask))
WAITS(select, (int count, fd_set* in, fd_set* out, fd_set* exceptional, timeval* timeout),
      (count, in, out, exceptional, timeout))
WAITS(pselect, (int count, fd_set* in, fd_set* out, fd_set* exceptional, const timespec* timeout, const sigset_t* mask),
      (count, in, out, exceptional, timeout, mask))
WAITS(epoll_wait, (int fd, epoll_event* events, int count, int timeout), (fd, events, count, timeout))
WAITS(epoll_pwait, (int fd, epoll_event* events, int count, int timeout, const sigset_t* mask),
      (fd, events, count, timeout, mask))

STANDS_IN int close(int fd) {
  at_close(fd);
  return REAL(close)(fd);
}
STANDS_IN int shutdown(int fd, int how) noexcept {
  if (how != SHUT_RD && fd == g_connection) reprise::afl::end(0, true);
  return REAL(shutdown)(fd, how);
}
