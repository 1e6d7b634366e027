// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Which node each rank starts on: by --map-by, -N or a rankfile, as mpirun does it. */
#include <string>
#include <variant>
#include <vector>

#include "placement.h"

namespace reprise::job {

/** The node of every rank, or why there is no place, in words that say what to do. */
using Mapped = std::variant<PlacementTable, std::string>;

/**
 * Map the ranks of @p job to the usable nodes that are no spares. Each program's ranks follow those of the one before, on
 * nodes that it names, or on all.
 * - by slot, or by a part of the nodes: fill one node after the other
 * - by node: one rank on each in turn
 * - span: the ranks of a node are in proportion to its parts
 * - per_part (ppr): so many ranks for each part of a node, for each program
 * - a rankfile: as it says; ranks whose node is not there any more get free slots
 * @param oversubscribe more ranks than slots are allowed: nodes get them in further rounds
 */
Mapped map_at_launch(const JobSpec& job, const std::vector<Seat>& seats, bool oversubscribe);

/** @return "package" and so on, as in --map-by */
std::string part_name(Mapping::Part part);
std::uint32_t count_of(const Parts& parts, Mapping::Part part);

}  // namespace reprise::job
