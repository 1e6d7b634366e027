// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The list of cores behind "slot=" in a rankfile. */
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::job {

/** Cores of one package, or of the whole node. All numbers are hwloc's logical ones. */
struct SlotGroup {
  std::optional<unsigned> package;                      ///< nothing: the numbers count the cores of the node
  std::vector<std::pair<unsigned, unsigned>> ranges;    ///< first and last core; empty: all ("*")
};

/** "10-12", "0,1,4", "1:0-2", "0:*", "0:1;1:0-2". Throws std::runtime_error, which quotes @p text. */
std::vector<SlotGroup> parse_slot_list(const std::string& text);

}  // namespace reprise::job
