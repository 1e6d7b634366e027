// SPDX-License-Identifier: GPL-2.0-only
#include "placement.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

namespace reprise::job {

namespace {

struct Load {
  Seat seat;
  std::uint32_t used = 0;
  std::uint32_t free() const { return seat.slots > used ? seat.slots - used : 0; }
  double filled() const { return seat.slots ? static_cast<double>(used) / seat.slots : 1e9 + used; }
};

/** The usable nodes, the least loaded first: many ranks may have to be placed on many nodes. */
class Loads {
 public:
  explicit Loads(const std::vector<Seat>& seats) {
    for (const Seat& seat : seats) {
      at_[seat.node] = loads_.size();
      loads_.push_back({seat});
    }
  }
  /** @return the node's load, if it can be used */
  Load* find(NodeIndex node) {
    const auto found = at_.find(node);
    return found == at_.end() || !loads_[found->second].seat.usable ? nullptr : &loads_[found->second];
  }
  /** All loads of find() are right now. */
  void sort() {
    for (std::size_t i = 0; i < loads_.size(); ++i) enter(i);
  }
  /** @return a spare for @p count ranks together */
  std::optional<NodeIndex> take_spare(std::uint32_t count) {
    for (const auto& [filled, index] : spares_)
      if (loads_[index].free() >= count) return take(index, count);
    return std::nullopt;
  }
  /** @return the best node for one rank: spares first, then free slots, then any */
  std::optional<NodeIndex> take_one(bool beyond_slots) {
    for (const Order* order : {&spares_, &free_, &all_})
      if (!order->empty() && (order != &all_ || beyond_slots)) return take(order->begin()->second, 1);
    return std::nullopt;
  }

 private:
  using Order = std::set<std::pair<double, std::size_t>>;  ///< by load, then by order of the seats
  void enter(std::size_t index) {
    const Load& load = loads_[index];
    if (!load.seat.usable) return;
    const std::pair key{load.filled(), index};
    all_.insert(key);
    if (!load.free()) return;
    free_.insert(key);
    if (load.seat.spare) spares_.insert(key);
  }
  NodeIndex take(std::size_t index, std::uint32_t count) {
    Load& load = loads_[index];
    for (Order* order : {&spares_, &free_, &all_}) order->erase({load.filled(), index});
    load.used += count;
    enter(index);
    return load.seat.node;
  }

  std::vector<Load> loads_;
  std::unordered_map<NodeIndex, std::size_t> at_;
  Order spares_, free_, all_;
};

}  // namespace

std::optional<PlacementTable> place_again(const PlacementTable& old, const std::vector<Seat>& seats, bool double_up) {
  Loads loads(seats);
  std::map<NodeIndex, std::vector<Rank>> homeless;
  for (Rank rank = 0; rank < old.size(); ++rank) {
    if (Load* load = loads.find(old[rank]))
      ++load->used;
    else
      homeless[old[rank]].push_back(rank);
  }
  loads.sort();

  PlacementTable out = old;
  for (const auto& [node, ranks] : homeless) {
    if (const auto spare = loads.take_spare(static_cast<std::uint32_t>(ranks.size()))) {
      for (Rank rank : ranks) out[rank] = *spare;
      continue;
    }
    for (Rank rank : ranks) {
      const auto taken = loads.take_one(double_up);
      if (!taken) return std::nullopt;
      out[rank] = *taken;
    }
  }
  return out;
}

}  // namespace reprise::job
