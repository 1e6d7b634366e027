// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The kind of an open file, from its link in /proc, mode and device number. */
#include <cstdint>
#include <string>

#include "image/state.pb.h"

namespace reprise {

/** @return the name of a kind in messages: "pipe", "epoll set" … */
const char* kind_name(Description::Kind kind);

struct Classified {
  Description::Kind kind = Description::UNKNOWN;
  bool ask_terminal = false;  ///< unknown character device: can be saved only if it is a terminal
  std::string refusal;        ///< not empty: what it is; it cannot be saved
};

/**
 * @param link   target of /proc/PID/fd/N
 * @param mode   S_IF* of the inode, 0 for anonymous inodes
 * @param rdev   st_rdev of a device
 * @param agent  it is a descriptor of /dev/cr
 */
Classified classify(const std::string& link, std::uint32_t mode, std::uint64_t rdev, std::uint32_t f_flags, bool agent);

}  // namespace reprise
