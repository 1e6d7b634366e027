// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The table of a delta image's pages in other files: Process.base_runs of state.proto. */
#include <cstdint>
#include <optional>
#include <vector>

#include "image/format.h"
#include "image/state.pb.h"

namespace reprise::image {

/** An entry: contiguous pages in memory and in a base. */
struct BaseRun {
  std::uint64_t addr, len;   ///< bytes
  std::uint32_t base;        ///< index of the base
  std::uint64_t first_page;  ///< number of the first page in the base
};

inline constexpr int kBaseRunNumbers = 4;  ///< numbers of the table for each entry

/** Add an entry. @param after end of the previous one, 0: this is the first */
void add_base_run(Process& process, std::uint64_t after, const BaseRun& run);

/** @return the entries by address, without overlaps; nothing when the table is malformed */
std::optional<std::vector<BaseRun>> read_base_runs(const Process& process);

}  // namespace reprise::image
