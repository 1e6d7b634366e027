// SPDX-License-Identifier: LGPL-2.1-or-later
// Regions of memory, and when two uses of them conflict.
#pragma once

#include <cstddef>
#include <cstdint>

namespace croff {

struct Region {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  bool reads = false, writes = false;

  std::uintptr_t end() const { return begin + bytes; }
  std::byte *data() const { return reinterpret_cast<std::byte *>(begin); }
};

inline bool overlap(const Region &a, const Region &b) {
  return a.bytes && b.bytes && a.begin < b.end() && b.begin < a.end();
}

inline bool conflict(const Region &a, const Region &b) {
  return (a.writes || b.writes) && overlap(a, b);
}

}  // namespace croff
