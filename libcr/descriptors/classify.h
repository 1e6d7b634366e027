// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file What an open file is, by the little that costs nothing to ask for. */
#include <cstdint>
#include <string>

#include "image/state.pb.h"

namespace reprise {

/** How a kind of open file is called in messages: "pipe", "epoll set" … */
const char* kind_name(Description::Kind kind);

struct Classified {
  Description::Kind kind = Description::UNKNOWN;
  bool ask_terminal = false;  ///< a character device of unknown sort: only a terminal can be saved
  std::string refusal;        ///< not empty: what it is, and that is not saved
};

/**
 * @param link   as /proc/PID/fd/N shows it
 * @param mode   S_IF* of the inode, 0 for anonymous ones
 * @param rdev   of a device
 * @param agent  a descriptor of /dev/cr
 */
Classified classify(const std::string& link, std::uint32_t mode, std::uint64_t rdev, std::uint32_t f_flags, bool agent);

}  // namespace reprise
