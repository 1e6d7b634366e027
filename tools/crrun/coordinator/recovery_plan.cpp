// SPDX-License-Identifier: GPL-2.0-only
#include "recovery_plan.h"

#include <algorithm>

namespace reprise::job {

namespace {

/** @return the nodes of all in the wave, by place; nothing: there is no place for a spawned process */
std::optional<PlacementTable> place_all(const StoredWave& wave, const PlacementTable& own, const std::map<Rank, NodeIndex>& spawned,
                                        const std::vector<Seat>& seats, bool double_up) {
  if (wave.families.empty()) return own;
  PlacementTable all = own;
  const Roster roster = wave.roster();
  for (std::size_t place = own.size(); place < roster.size(); ++place) {
    const auto now = spawned.find(roster.number(place));
    all.push_back(now == spawned.end() ? wave.ranks[place].node : now->second);
  }
  return place_again(all, seats, double_up);
}

/** Orders to read images from other nodes: of each rank that restarts on a node to which no path leads. */
class Fetches {
 public:
  Fetches(const StoredWave& wave, const Serving& serving) : wave_(wave), serving_(serving) {}

  void add(Rank rank, const StoredRank& image, NodeIndex to) {
    const auto serves = [this](NodeIndex node) { return serving_(node) != nullptr; };
    // The image that was taken first, then copies.
    std::vector<NodeIndex> have = image.copies;
    if (image.local) have.insert(have.begin(), image.node);
    std::erase_if(have, [&](NodeIndex node) { return !serves(node); });
    if (have.empty())
      if (const StoredSet* set = wave_.rebuilding(rank, serves)) return rebuilt_[{to, set}].push_back(rank);
    orders_[{to, std::move(have)}].push_back(rank);
  }
  void put(Recover& message) const {
    for (const auto& [key, ranks] : orders_) {
      Fetch& fetch = *message.add_fetch();
      fetch.set_to(key.first);
      for (Rank rank : ranks) fetch.add_ranks(rank);
      for (NodeIndex node : key.second) {
        ImageSource& source = *fetch.add_sources();
        source.set_node(node);
        *source.mutable_from() = *serving_(node);
        for (Rank rank : ranks) *source.add_images() = stored_image(wave_, rank);
      }
    }
    for (const auto& [key, ranks] : rebuilt_) {
      Fetch& fetch = *message.add_fetch();
      fetch.set_to(key.first);
      for (Rank rank : ranks) fetch.add_ranks(rank);
      for (const StoredSet::Member& member : key.second->members) {
        const bool lost = std::find(member.ranks.begin(), member.ranks.end(), ranks.front()) != member.ranks.end();
        ImageSource& source = *fetch.add_sources();
        source.set_node(member.node);
        if (!lost) *source.mutable_from() = *serving_(member.node);
        for (Rank rank : member.ranks) *source.add_images() = stored_image(wave_, rank);
      }
    }
  }

 private:
  const StoredWave& wave_;
  const Serving& serving_;
  std::map<std::pair<NodeIndex, std::vector<NodeIndex>>, std::vector<Rank>> orders_;  ///< by receiver and sources
  std::map<std::pair<NodeIndex, const StoredSet*>, std::vector<Rank>> rebuilt_;                ///< by receiver and set
};

}  // namespace

std::optional<RecoveryPlan> plan_recovery(const PlacementTable& placement, const std::map<Rank, NodeIndex>& spawned,
                                          const std::vector<Seat>& seats, bool double_up, const Store& store, const LiveProcess& live,
                                          const Serves& serves) {
  auto placed = place_again(placement, seats, double_up);
  if (!placed) return std::nullopt;
  RecoveryPlan out{std::move(*placed), 0, {}, {}};
  for (auto wave = store.waves().rbegin(); wave != store.waves().rend() && !out.wave; ++wave) {
    auto nodes = place_all(wave->second, out.placement, spawned, seats, double_up);
    if (!nodes || !store.available(wave->second, *nodes, serves)) continue;
    out.wave = wave->first;
    out.nodes = std::move(*nodes);
  }
  if (!out.wave) return out;
  const StoredWave& stored = *store.find(out.wave);
  const Roster roster = stored.roster();
  for (std::size_t place = 0; place < out.nodes.size(); ++place) {
    const StoredRank& image = stored.ranks[place];
    const Rank number = roster.number(place);
    // One that moves or has ended has no process to pause. Another may have been restarted since the wave: it can be paused, too.
    if (!live(number) || !image.local || image.node != out.nodes[place]) out.restart.insert(number);
  }
  return out;
}

void RecoveryPlan::fill(Recover& message, const Store& store, const Serving& serving) const {
  message.set_wave(wave);
  const StoredWave& stored = *store.find(wave);
  Fetches fetches(stored, serving);
  const Roster roster = stored.roster();
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    const Rank number = roster.number(at);
    Placement& place = *message.add_placement();
    place.set_rank(number);
    place.set_node(nodes[at]);
    if (nodes.size() <= kWholeTables || restart.count(number)) *message.add_images() = store.place(wave, number, nodes[at]);
  }
  for (Rank rank : restart) {
    message.add_restart(rank);
    const std::size_t place = *roster.place(rank);
    const StoredRank& image = stored.ranks[place];
    if (!image.staged && !image.on(nodes[place])) fetches.add(rank, image, nodes[place]);
  }
  fetches.put(message);
  for (const StoredFamily& family : stored.families) {
    SpawnBegin& spawned = *message.add_spawned();
    spawned.set_index(family.index);
    spawned.set_first(family.first);
    spawned.set_parent(family.parent);
    spawned.set_begun(true);
    for (const SpawnApp& app : family.apps) *spawned.add_apps() = app;
    for (Rank rank = 0; rank < family.count; ++rank) spawned.add_node_of_rank(nodes[*roster.place(family.first + rank)]);
  }
}

}  // namespace reprise::job
