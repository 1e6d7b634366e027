// SPDX-License-Identifier: GPL-2.0-only
#include "placement.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace reprise::job {

namespace {

struct Load {
  Seat seat;
  std::uint32_t used = 0;
  std::uint32_t free() const { return seat.slots > used ? seat.slots - used : 0; }
  double filled() const { return seat.slots ? static_cast<double>(used) / seat.slots : 1e9 + used; }
};

/** @return the best node for @p count ranks: spares first, then the least loaded */
Load* best(std::vector<Load>& loads, std::uint32_t count, bool spares, bool beyond_slots) {
  Load* out = nullptr;
  for (Load& load : loads) {
    if (!load.seat.usable || (spares && !load.seat.spare) || (!beyond_slots && load.free() < count)) continue;
    if (!out || load.filled() < out->filled()) out = &load;
  }
  return out;
}

}  // namespace

std::optional<PlacementTable> place_at_launch(std::uint32_t ranks, const std::vector<Seat>& seats, bool by_node,
                                              bool oversubscribe) {
  std::vector<Seat> usable;
  for (const Seat& seat : seats)
    if (seat.usable && !seat.spare && seat.slots) usable.push_back(seat);
  const std::uint64_t slots = std::accumulate(usable.begin(), usable.end(), std::uint64_t{0},
                                              [](std::uint64_t sum, const Seat& seat) { return sum + seat.slots; });
  if (usable.empty() || (slots < ranks && !oversubscribe)) return std::nullopt;

  // When all slots are taken, every node gets its share of another round.
  PlacementTable out;
  for (std::uint64_t round = 0; out.size() < ranks; ++round) {
    if (!by_node) {
      for (const Seat& seat : usable)
        for (std::uint32_t i = 0; i < seat.slots && out.size() < ranks; ++i) out.push_back(seat.node);
      continue;
    }
    const bool beyond = out.size() >= slots;
    for (const Seat& seat : usable)
      if ((beyond || round < seat.slots) && out.size() < ranks) out.push_back(seat.node);
  }
  return out;
}

std::optional<PlacementTable> place_again(const PlacementTable& old, const std::vector<Seat>& seats, bool double_up) {
  std::vector<Load> loads;
  std::map<NodeIndex, std::size_t> at;
  for (const Seat& seat : seats) {
    at[seat.node] = loads.size();
    loads.push_back({seat, 0});
  }
  std::map<NodeIndex, std::vector<Rank>> homeless;
  for (Rank rank = 0; rank < old.size(); ++rank) {
    const auto found = at.find(old[rank]);
    if (found != at.end() && loads[found->second].seat.usable)
      ++loads[found->second].used;
    else
      homeless[old[rank]].push_back(rank);
  }

  PlacementTable out = old;
  for (const auto& [node, ranks] : homeless) {
    const auto all = static_cast<std::uint32_t>(ranks.size());
    if (Load* load = best(loads, all, true, false)) {
      for (Rank rank : ranks) out[rank] = load->seat.node;
      load->used += all;
      continue;
    }
    for (Rank rank : ranks) {
      Load* load = best(loads, 1, true, false);
      if (!load) load = best(loads, 1, false, false);
      if (!load && double_up) load = best(loads, 1, false, true);
      if (!load) return std::nullopt;
      out[rank] = load->seat.node;
      ++load->used;
    }
  }
  return out;
}

}  // namespace reprise::job
