// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Which rank runs where. */
#include <optional>

#include "types.h"

namespace reprise::job {

/** A node as far as placing is concerned. */
struct Seat {
  NodeIndex node = 0;
  std::uint32_t slots = 1;
  bool spare = false;
  bool usable = true;  ///< it lives, and is not being drained
};

/** By slot: nodes are filled one after the other; by node: one rank each in turn. None: too few slots. */
std::optional<PlacementTable> place_at_launch(std::uint32_t ranks, const std::vector<Seat>& seats, bool by_node,
                                              bool oversubscribe);

/**
 * New places for ranks whose node is no longer usable; all others stay where they are. Spares with slots come first,
 * the least loaded one, if possible one for all ranks of a lost node; then free slots of other nodes; then, if
 * @p double_up, more ranks than slots. None: there is no place.
 */
std::optional<PlacementTable> place_again(const PlacementTable& old, const std::vector<Seat>& seats, bool double_up);

}  // namespace reprise::job
