// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Where the ranks of lost nodes go on. */
#include <optional>

#include "types.h"

namespace reprise::job {

/** A node, as far as placement is concerned. */
struct Seat {
  NodeIndex node = 0;
  std::uint32_t slots = 1;
  bool spare = false;
  bool usable = true;  ///< it lives and is not being drained
  std::string host = {};  ///< for messages, rankfiles and programs
  Parts parts = {};
};

/**
 * Place those ranks anew whose node is no longer usable; all others stay. Spares with slots come first, the least loaded
 * one, if possible one for all ranks of a lost node. Then come free slots of other nodes; then, if @p double_up, more
 * ranks than slots. @return nothing if there is no place
 */
std::optional<PlacementTable> place_again(const PlacementTable& old, const std::vector<Seat>& seats, bool double_up);

}  // namespace reprise::job
