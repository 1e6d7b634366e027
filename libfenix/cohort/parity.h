// SPDX-License-Identifier: LGPL-2.1-or-later
// Parity of a cohort, as in a RAID 5: each rank's data is cut into as many pieces as there are others, and each of these keeps one
// piece's part of its parity. So the exclusive or of what all give for a rank is its parity, and of what the others give for a lost
// one are its pieces. With two ranks the parity is a copy. Pure logic.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace fnx {

/** Bytes of parity that each rank keeps if the largest of `ranks` has so much data. */
std::size_t parity_bytes(std::size_t largest, std::size_t ranks);

/** A range of each block: `blocks` below has for each rank of the cohort `bytes` bytes. */
struct Slice {
  std::size_t begin, bytes;
};

/**
 * What this rank gives for the parity of each: for another one its piece, for itself nothing.
 * @param unit parity_bytes() of the cohort
 */
std::vector<std::byte> contribution(std::span<const std::byte> data, std::size_t me, std::size_t ranks, std::size_t unit, Slice slice);

/** The same with this rank's parity in its own block: the exclusive or of that of all survivors is the lost rank's. */
std::vector<std::byte> contribution(std::span<const std::byte> data, std::span<const std::byte> parity, std::size_t me,
                                    std::size_t ranks, std::size_t unit, Slice slice);

/** In the lost rank `me`: put what has come out into its data and parity, which have their sizes. */
void reconstruct(const std::vector<std::byte> &blocks, std::size_t me, std::size_t ranks, std::size_t unit, Slice slice,
                 std::span<std::byte> data, std::span<std::byte> parity);

}  // namespace fnx
