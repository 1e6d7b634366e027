// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The receive queue of a Unix socket. */
#include <optional>
#include <string>
#include <vector>

#include "base/proc_dir.h"
#include "descriptors/socket_name.h"

namespace reprise {

struct UnixQueue {
  std::vector<std::string> messages;  ///< oldest first; for a stream at most one
  std::optional<Unseen> unseen;       ///< what else it contains that cannot be sent again
};

/**
 * Read the queue of @p fd, a connected Unix socket, without consuming it. No other process may use it meanwhile.
 * Throws Error.
 * @param type     SOCK_STREAM …
 * @param process  the expected sender, checked against SCM_CREDENTIALS where present; null: do not check
 */
UnixQueue peek_queue(int fd, int type, const ProcDir* process);

/** Discard the queue of @p fd, of @p type. */
void drain_queue(int fd, int type);

}  // namespace reprise
