// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file What of a piece is missing in another file, in parts. */
#include <algorithm>
#include <cstdint>

namespace reprise::image {

inline constexpr std::uint64_t kPart = 1 << 20;  ///< most bytes of a part; a multiple of kPage and kBlobBlock

/**
 * Call @p use(from, end) for the parts of [0, @p len) that are missing, each of at most kPart bytes.
 * @param unit   the piece consists of so many bytes each, but for the last
 * @param there  called with the beginning of a unit: whether that is not missing
 */
template <class There, class Use>
void each_missing(std::uint64_t len, std::uint64_t unit, const There& there, const Use& use) {
  for (std::uint64_t at = 0; at < len;) {
    if (there(at)) {
      at += unit;
      continue;
    }
    std::uint64_t end = at + unit;
    while (end < len && end - at < kPart && !there(end)) end += unit;
    end = std::min(end, len);
    use(at, end);
    at = end;
  }
}

}  // namespace reprise::image
