// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Multicast groups that a socket is in. No option lists them, but the kernel answers for each one. */
#include <string>
#include <vector>

#include <sys/types.h>

#include "image/state.pb.h"

namespace reprise {

/**
 * Of @p fd, a socket of process @p pid: each one as the name of the interface, padded to IFNAMSIZ, and a struct
 * group_filter. Groups of interfaces that the process's network namespace does not have any more are not found.
 */
std::vector<std::string> multicast_memberships(int fd, const Socket& socket, pid_t pid);

/** Enter one of them. @return "" or what failed */
std::string join_multicast(int fd, const std::string& membership);

}  // namespace reprise
