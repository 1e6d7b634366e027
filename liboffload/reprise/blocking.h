// SPDX-License-Identifier: LGPL-2.1-or-later
// Reading and writing all of something on a nonblocking socket. The caller says how to wait.
#pragma once

#include <cstddef>
#include <functional>

namespace croff {

/** Wait until the socket is ready for one of these events of poll(). */
using Waiting = std::function<void(int socket, short events)>;

/** @return false: the other side has gone */
bool read_all(int socket, void *data, std::size_t bytes, const Waiting &wait);
bool write_all(int socket, const void *data, std::size_t bytes, const Waiting &wait);

}  // namespace croff
