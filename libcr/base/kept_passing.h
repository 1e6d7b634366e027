// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Kept memory that is handed to another process over a Unix socket: one message for each, its name without the prefix, with
 * a descriptor of it (SCM_RIGHTS). The socket keeps messages apart (SOCK_SEQPACKET or SOCK_DGRAM).
 */
#include <string>

#include "base/unique_fd.h"

namespace reprise {

/** A descriptor of kept memory. */
struct KeptFile {
  std::string name;  ///< without the prefix
  UniqueFd memory;
};

/** Send @p file; waits while the socket is full. @return false with errno on failure */
bool send_kept(int socket, const KeptFile& file);

/**
 * Receive what send_kept() has sent, without waiting.
 * @return the memory, close-on-exec. On failure one without a descriptor, and errno: EAGAIN when none has arrived yet, ECONNRESET
 *         when the sender has closed the socket, EMFILE when there is no room for its descriptor, EPROTO when the message is
 *         something else
 */
KeptFile receive_kept(int socket);

}  // namespace reprise
