// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Pages of zeros are holes in an image. */
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "image/format.h"

namespace reprise::image {

inline bool all_zero(const char* data, std::size_t len) {
  return len == 0 || (data[0] == 0 && std::memcmp(data, data + 1, len - 1) == 0);
}

/** Call @p use(from, len) for each part of @p data that is not pages of zeros, in order. Pages are counted from its beginning. */
template <class Use>
void for_each_content(const char* data, std::size_t len, const Use& use) {
  std::size_t from = 0;
  for (std::size_t at = 0, step; at < len; at += step) {
    step = std::min<std::size_t>(kPage, len - at);
    if (!all_zero(data + at, step)) continue;
    if (at > from) use(from, at - from);
    from = at + step;
  }
  if (len > from) use(from, len - from);
}

}  // namespace reprise::image
