// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Sockets in words, and what their saved state means. */
#include <cstdint>
#include <string>

#include "image/state.pb.h"

namespace reprise {

// Socket.options also holds facts that are not socket options of the kernel, under a level of our own.
inline constexpr int kOwnLevel = -1;
inline constexpr int kOwnDead = 1;      ///< its peer was gone and nothing was left to read; no value
inline constexpr int kOwnPathMode = 2;  ///< uint32_t: permissions of the path that a Unix socket is bound to

inline constexpr int kOwnUnseen = 3;     ///< uint32_t, Unseen: why its queue could not be saved, though it is inside

inline constexpr int kOwnProgram = 4;    ///< an eBPF program filters what it gets: the kernel does not show it; no value
inline constexpr int kOwnMulticast = 5;  ///< a group that it is in, see multicast.h; as many as there are

/** What may be in a queue that nobody can put there again. */
enum class Unseen : std::uint32_t { rights = 1, credentials = 2, urgent = 3 };

/** "127.0.0.1:80", "[::1]:80", "/run/x", "@abstract"; "" for an address that is unset. */
std::string address_text(const std::string& sockaddr);

/** "TCP connection 10.0.0.1:6379 -> 10.0.0.2:51000", "listening Unix socket /run/x" … */
std::string socket_text(const Socket& socket);

/** @return the value of an option that was saved, or null */
const Socket::Option* find_option(const Socket& socket, int level, int name);

/** Does it have (or is it getting) a peer? */
bool socket_connected(const Socket& socket);
/** It read end-of-file and wrote EPIPE already when it was saved. */
bool socket_was_dead(const Socket& socket);
/** Can a socket be made that is as good: listening, unconnected, or with a peer that need not agree? */
bool socket_remakeable(const Socket& socket);
/** What of it cannot be had again, whatever kind of socket it is; "" if nothing. */
std::string socket_problem(const Socket& socket);
/** Path in an address of a Unix socket, "" if there is none (abstract, unbound, another family). */
std::string unix_path(const std::string& sockaddr);
/** Path of a Unix socket that is bound in the file system, else "". */
std::string socket_path(const Socket& socket);

}  // namespace reprise
