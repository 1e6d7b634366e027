// SPDX-License-Identifier: LGPL-2.1-or-later
// Where a function is, in terms that hold in another process of the same program: its object and the offset from its load base.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace croff {

struct CodeReference {
  static constexpr std::size_t kMostObject = 87;  // bytes
  std::string object;       // file name of the library; "" is the executable
  std::uint64_t offset = 0;
  std::uint64_t build = 0;  // differs between builds of the object with other code sizes or build ids
};

/** @throw Error(function) if no object contains it, or one whose name is too long */
CodeReference refer(const void *function);

/** @throw Error(function) if this process has no such object, or another build of it */
void *resolve(const CodeReference &reference);

/** For messages: "libx.so+0x123", or the name of the symbol if it is exported. */
std::string describe(const CodeReference &reference);

}  // namespace croff
