// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Multicast memberships of a socket. No option lists them, but MCAST_MSFILTER can be read for each group. */
#include <string>
#include <vector>

#include <sys/types.h>

#include "image/state.pb.h"

namespace reprise {

/**
 * @param fd   a socket of process @p pid
 * @return each membership as the interface's name, padded to IFNAMSIZ, and a struct group_filter. Groups of interfaces
 * that the process's network namespace no longer has are not found
 */
std::vector<std::string> multicast_memberships(int fd, const Socket& socket, pid_t pid);

/** Join a group saved by multicast_memberships(). @return "" or what failed */
std::string join_multicast(int fd, const std::string& membership);

}  // namespace reprise
