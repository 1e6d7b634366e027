// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Pass a descriptor over a Unix socket (SCM_RIGHTS). No heap and no exceptions, because libcr.so uses it too. */
#include <cstddef>

#include <sys/socket.h>

#include "base/unique_fd.h"

namespace reprise {

/** Send @p descriptor with @p size bytes of @p data (one byte by default). @return false on failure, with errno set */
bool send_descriptor(int socket, int descriptor, const void* data = "", std::size_t size = 1);

/**
 * Receive a descriptor that was sent with one byte of data.
 * @param flags flags of recvmsg(2); the default does not block
 * @return the descriptor, close-on-exec. On failure an empty one with errno set: EAGAIN when none has arrived yet,
 *         ECONNRESET when the sender has closed the socket, EPROTO when the message carries no descriptor
 */
UniqueFd receive_descriptor(int socket, int flags = MSG_DONTWAIT);

}  // namespace reprise
