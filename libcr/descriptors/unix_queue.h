// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file What is in the queue of a Unix socket. */
#include <optional>
#include <string>
#include <vector>

#include "base/proc_dir.h"
#include "descriptors/socket_name.h"

namespace reprise {

struct UnixQueue {
  std::vector<std::string> messages;  ///< oldest first; of a stream all in one
  std::optional<Unseen> unseen;       ///< what is in it beside that, which cannot be sent again
};

/**
 * Everything in the queue of @p fd, a connected Unix socket, without taking it out. Nobody else may use it meanwhile.
 * @param type     SOCK_STREAM …
 * @param process  who must have sent it, as far as the kernel tells; null: do not ask
 */
UnixQueue peek_queue(int fd, int type, const ProcDir* process);

/** Throw away what is in the queue of @p fd, of @p type. */
void drain_queue(int fd, int type);

}  // namespace reprise
