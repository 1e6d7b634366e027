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
 * Receive a descriptor that was sent with data.
 * @param size  in: bytes that fit into @p data; out: those that came
 * @param flags flags of recvmsg(2); the default does not block
 * @return the descriptor, close-on-exec. On failure an empty one with errno set: EAGAIN when none has arrived yet,
 *         ECONNRESET when the sender has closed the socket, EMFILE when this process has too many descriptors, EPROTO when the
 *         message carries no descriptor, or more data
 */
UniqueFd receive_descriptor(int socket, void* data, std::size_t& size, int flags = MSG_DONTWAIT);
/** The same for a descriptor that was sent with one byte of data. */
UniqueFd receive_descriptor(int socket, int flags = MSG_DONTWAIT);

}  // namespace reprise
