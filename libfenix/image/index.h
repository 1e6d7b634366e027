// SPDX-License-Identifier: LGPL-2.1-or-later
// The index of an arena: which groups there are, and where in it their snapshots are.
#pragma once

#include <cstdint>
#include <vector>

#include "image.h"
#include "store/arena.h"

namespace fnx {

/** @return numbers for Arena::publish() */
std::vector<std::int64_t> index_of(const std::vector<KeptGroup> &groups, const Arena &arena);

/** @return the groups of an index. What it refers to is claimed. If it makes no sense, there are none */
std::vector<KeptGroup> groups_in(const std::vector<std::int64_t> &index, Arena &arena);

}  // namespace fnx
