// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Names of sockets for messages, and the interpretation of their saved state. */
#include <cstdint>
#include <string>

#include "image/state.pb.h"

namespace reprise {

// Socket.options also holds state that is not a kernel socket option, under a level of our own.
inline constexpr int kOwnLevel = -1;
inline constexpr int kOwnDead = 1;      ///< its peer was closed and nothing was left to read; no value
inline constexpr int kOwnPathMode = 2;  ///< uint32_t: permissions of the path that a Unix socket is bound to

inline constexpr int kOwnUnseen = 3;     ///< uint32_t, Unseen: why its queue could not be saved, though it is inside

inline constexpr int kOwnProgram = 4;    ///< it has an eBPF filter, which the kernel does not show; no value
inline constexpr int kOwnMulticast = 5;  ///< one membership, see multicast.h; the option may occur several times

/** What a queue may contain that cannot be sent again. */
enum class Unseen : std::uint32_t { rights = 1, credentials = 2, urgent = 3 };

/** @return "127.0.0.1:80", "[::1]:80", "/run/x", "@abstract"; "" for an address that is unset */
std::string address_text(const std::string& sockaddr);

/** @return a description such as "TCP connection 10.0.0.1:6379 -> 10.0.0.2:51000", "listening Unix socket /run/x" */
std::string socket_text(const Socket& socket);

/** @return a saved option, or null */
const Socket::Option* find_option(const Socket& socket, int level, int name);

/** @return the port in an address of a netlink socket; 0: none of its own, or the kernel */
std::uint32_t netlink_port(const std::string& sockaddr);

/** Does it have (or is it getting) a peer? */
bool socket_connected(const Socket& socket);
/** Did it already return end of file and EPIPE when it was saved? */
bool socket_was_dead(const Socket& socket);
/** Can an equivalent socket be made: listening, unconnected, or with a peer that keeps no state of the connection? */
bool socket_remakeable(const Socket& socket);
/** @return what prevents making it again, whatever kind of socket it is; "" if nothing */
std::string socket_problem(const Socket& socket);
/** @return the path in an address of a Unix socket, "" if it has none (abstract, unbound, another family) */
std::string unix_path(const std::string& sockaddr);
/** @return the path of a Unix socket that is bound in the file system, else "" */
std::string socket_path(const Socket& socket);

}  // namespace reprise
