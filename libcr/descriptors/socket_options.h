// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Options of sockets that are made again. */
#include <string>

#include "image/state.pb.h"

namespace reprise {

/** Those that differ from what a fresh socket of its kind has. */
void save_socket_options(int fd, Socket& socket);

/** @return "" or what could not be set */
std::string set_socket_options(int fd, const Socket& socket, bool before_bind);

}  // namespace reprise
