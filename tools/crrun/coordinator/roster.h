// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Who takes part in a wave or a recovery: the job's own ranks, then the processes of spawned namespaces, which have
 * numbers above these. Tables of them are by their place, which begins at 0 and has no gaps.
 */
#include <cstddef>
#include <optional>
#include <vector>

#include "types.h"

namespace reprise::job {

class Roster {
 public:
  /** The ranks 0 to @p own - 1. */
  Roster(Rank own = 0) : ranges_{{0, own, 0}} {}
  /** Add a namespace, whose numbers are above all that are there. */
  void add(Rank first, Rank count) { ranges_.push_back({first, count, size()}); }

  std::size_t size() const { return ranges_.back().place + ranges_.back().count; }
  /** @return the place of a process; nothing: it does not take part */
  std::optional<std::size_t> place(Rank number) const {
    for (const Range& range : ranges_)
      if (number >= range.first && number - range.first < range.count) return range.place + (number - range.first);
    return std::nullopt;
  }
  Rank number(std::size_t place) const {
    for (const Range& range : ranges_)
      if (place - range.place < range.count) return range.first + static_cast<Rank>(place - range.place);
    return 0;
  }

 private:
  struct Range {
    Rank first, count;
    std::size_t place;  ///< of the first
  };
  std::vector<Range> ranges_;
};

}  // namespace reprise::job
