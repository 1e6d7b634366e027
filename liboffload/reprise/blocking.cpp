// SPDX-License-Identifier: LGPL-2.1-or-later
#include "blocking.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace croff {

bool read_all(int socket, void *data, std::size_t bytes, const Waiting &wait) {
  for (std::size_t got = 0; got < bytes;) {
    const ssize_t n = recv(socket, static_cast<std::byte *>(data) + got, bytes - got, 0);
    if (n > 0)
      got += static_cast<std::size_t>(n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
      return false;
    else
      wait(socket, POLLIN);
  }
  return true;
}

bool write_all(int socket, const void *data, std::size_t bytes, const Waiting &wait) {
  for (std::size_t put = 0; put < bytes;) {
    const ssize_t n = send(socket, static_cast<const std::byte *>(data) + put, bytes - put, MSG_NOSIGNAL);
    if (n >= 0)
      put += static_cast<std::size_t>(n);
    else if (errno != EAGAIN && errno != EINTR)
      return false;
    else
      wait(socket, POLLOUT);
  }
  return true;
}

}  // namespace croff
