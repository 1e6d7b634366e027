// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Options of sockets that are made again. */
#include <string>

#include <sys/types.h>

#include "image/state.pb.h"

namespace reprise {

/** Those of @p fd, of process @p pid, that differ from what a fresh socket of its kind has. */
void save_socket_options(int fd, Socket& socket, pid_t pid);

enum class SetWhen {
  before_bind,
  afterwards,
  trial,  ///< only those without which the socket must not be made
};
struct SetOptions {
  std::string failed;   ///< "" or what could not be set: to be reported
  std::string refused;  ///< the same, of those without which it would get, or send, what it must not
};
SetOptions set_socket_options(int fd, const Socket& socket, SetWhen when);

}  // namespace reprise
