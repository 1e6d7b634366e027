// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Saving and setting socket options. */
#include <string>

#include <sys/types.h>

#include "image/state.pb.h"

namespace reprise {

/** Save the options of @p fd, a socket of process @p pid, that differ from those of a new socket of its kind. */
void save_socket_options(int fd, Socket& socket, pid_t pid);

enum class SetWhen {
  before_bind,
  afterwards,
  trial,  ///< only the mandatory options, to check whether they can be set
};
struct SetOptions {
  std::string failed;   ///< options that could not be set and are to be reported; "" if none
  std::string refused;  ///< mandatory options that failed: without them the socket could receive or send wrong data
};
/** Set the saved options of the phase @p when. */
SetOptions set_socket_options(int fd, const Socket& socket, SetWhen when);

}  // namespace reprise
