// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The memory through which the ranks of the node exchange messages (mpi-callbacks/channel/rank_lanes.h). */
#include <cstdint>
#include <vector>

#include "base/unique_fd.h"

namespace reprise::crd {

/**
 * Make the memory for these ranks, with empty lanes. It lives as long as somebody has a descriptor of it or maps it.
 * Throws std::system_error.
 * @param ranks their numbers in the job, at most CR_LANES_RANKS
 */
UniqueFd make_lanes(const std::vector<std::uint32_t>& ranks);

}  // namespace reprise::crd
