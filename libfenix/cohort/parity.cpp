// SPDX-License-Identifier: LGPL-2.1-or-later
#include "parity.h"

#include <algorithm>
#include <cstring>

namespace fnx {
namespace {

/** The part of `size` bytes that a piece has in this slice: from where in the data, and how many. */
struct Part {
  std::size_t from, bytes;
};

Part part_of(std::size_t keeper, std::size_t me, std::size_t unit, Slice slice, std::size_t size) {
  const std::size_t piece = keeper < me ? keeper : keeper - 1, from = piece * unit + slice.begin;
  if (from >= size) return {size, 0};
  return {from, std::min(slice.bytes, size - from)};
}

}  // namespace

std::size_t parity_bytes(std::size_t largest, std::size_t ranks) {
  return ranks < 2 ? 0 : (largest + ranks - 2) / (ranks - 1);
}

std::vector<std::byte> contribution(std::span<const std::byte> data, std::size_t me, std::size_t ranks, std::size_t unit,
                                    Slice slice) {
  std::vector<std::byte> blocks(ranks * slice.bytes);
  for (std::size_t keeper = 0; keeper < ranks; ++keeper) {
    if (keeper == me) continue;
    const Part part = part_of(keeper, me, unit, slice, data.size());
    if (part.bytes) memcpy(&blocks[keeper * slice.bytes], &data[part.from], part.bytes);
  }
  return blocks;
}

std::vector<std::byte> contribution(std::span<const std::byte> data, std::span<const std::byte> parity, std::size_t me,
                                    std::size_t ranks, std::size_t unit, Slice slice) {
  std::vector<std::byte> blocks = contribution(data, me, ranks, unit, slice);
  if (slice.bytes) memcpy(&blocks[me * slice.bytes], &parity[slice.begin], slice.bytes);
  return blocks;
}

void reconstruct(const std::vector<std::byte> &blocks, std::size_t me, std::size_t ranks, std::size_t unit, Slice slice,
                 std::span<std::byte> data, std::span<std::byte> parity) {
  for (std::size_t keeper = 0; keeper < ranks; ++keeper) {
    if (keeper == me) continue;
    const Part part = part_of(keeper, me, unit, slice, data.size());
    if (part.bytes) memcpy(&data[part.from], &blocks[keeper * slice.bytes], part.bytes);
  }
  if (slice.bytes) memcpy(&parity[slice.begin], &blocks[me * slice.bytes], slice.bytes);
}

}  // namespace fnx
