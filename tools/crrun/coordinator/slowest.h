// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Which reports of ranks get into the timeline. In a large job these are those of each node's slowest rank and of
 * errors: a line for each of 640,000 ranks would be 140 MB a wave.
 */
#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "types.h"

namespace reprise::job {

/** @return whether a report, one of @p reports, belongs in the timeline. @p reports must outlive the answer. */
template <class Reports>
auto worth_telling(const Reports& reports, const PlacementTable& placement) {
  using Report = std::decay_t<decltype(*reports.begin())>;
  const bool all = placement.size() <= kWholeTables;
  std::unordered_map<NodeIndex, const Report*> slowest;
  for (const Report& one : reports) {
    if (all || one.rank() >= placement.size()) continue;
    const Report*& last = slowest[placement[one.rank()]];
    if (!last || one.end_unix_ns() > last->end_unix_ns()) last = &one;
  }
  return [all, slowest = std::move(slowest), &placement](const Report& one) {
    if (all || !one.error().empty()) return true;
    if (one.rank() >= placement.size()) return false;
    return slowest.at(placement[one.rank()]) == &one;
  };
}

}  // namespace reprise::job
