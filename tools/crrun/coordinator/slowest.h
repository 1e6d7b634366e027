// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Which ranks' reports get into the timeline. In a large job these are those of each node's slowest rank: a line for
 * each of 640,000 ranks would be 140 MB a wave.
 */
#include <cstdint>
#include <unordered_map>

#include "types.h"

namespace reprise::job {

class Slowest {
 public:
  /** @param placement must outlive this */
  explicit Slowest(const PlacementTable& placement) : placement_(placement), all_(placement.size() <= kWholeTables) {}
  /** A rank has reported when it ended. First add all, then ask. */
  void add(Rank rank, std::uint64_t end_unix_ns) {
    if (all_ || rank >= placement_.size()) return;
    const auto [last, fresh] = slowest_.try_emplace(placement_[rank], Last{rank, end_unix_ns});
    if (!fresh && end_unix_ns > last->second.end_unix_ns) last->second = {rank, end_unix_ns};
  }
  /** @return whether the rank is the slowest of its node; in a small job all count as such */
  bool is(Rank rank) const {
    if (all_) return true;
    if (rank >= placement_.size()) return false;
    const auto found = slowest_.find(placement_[rank]);
    return found != slowest_.end() && found->second.rank == rank;
  }

 private:
  struct Last {
    Rank rank;
    std::uint64_t end_unix_ns;
  };
  const PlacementTable& placement_;
  bool all_;
  std::unordered_map<NodeIndex, Last> slowest_;
};

}  // namespace reprise::job
