// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Pass a descriptor over a Unix socket (SCM_RIGHTS). No heap and no exceptions: libcr.so uses it, too. */
#include <cstddef>

#include <sys/socket.h>

#include "base/unique_fd.h"

namespace reprise {

/** Send @p descriptor with @p size bytes of @p data (one byte by default). @return false with errno */
bool send_descriptor(int socket, int descriptor, const void* data = "", std::size_t size = 1);

/**
 * Receive a descriptor that came with one byte.
 * @param flags of recvmsg(2); by default it does not wait
 * @return an empty descriptor when there is none; errno EAGAIN: none has arrived yet, ECONNRESET: the sender has closed
 */
UniqueFd receive_descriptor(int socket, int flags = MSG_DONTWAIT);

}  // namespace reprise
