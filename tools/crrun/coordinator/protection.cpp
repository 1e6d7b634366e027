// SPDX-License-Identifier: GPL-2.0-only
#include "protection.h"

#include <algorithm>
#include <tuple>

namespace reprise::job {

namespace {
constexpr std::uint64_t kAgainMs = 1000, kAgainMostMs = 30'000;
/** After so many errors in a row others copy a node's images. */
constexpr unsigned kElsewhere = 3;
/** The image is on no node that hands it out, but in JOBDIR. */
constexpr NodeIndex kNowhere = ~NodeIndex{0};

/** The nodes of a ring in sets of @p size, as equal as can be. */
std::vector<std::vector<NodeIndex>> in_sets(const std::vector<NodeIndex>& ring, std::size_t size) {
  std::vector<std::vector<NodeIndex>> out;
  for (std::size_t at = 0; at < ring.size(); ++at) {
    const bool last_alone = at + 1 == ring.size() && at % size == 0;
    if (at % size == 0 && !(last_alone && at)) out.emplace_back();
    out.back().push_back(ring[at]);
  }
  return out;
}
}  // namespace

bool Protection::troubled(NodeIndex receiver, NodeIndex source) const {
  const auto found = trouble_.find({receiver, source});
  return found != trouble_.end() && found->second.times >= kElsewhere;
}

/** Failure groups take turns; a group's nodes are in order. */
std::vector<NodeIndex> Protection::ring(const std::set<NodeIndex>& homes) const {
  std::map<std::uint32_t, std::uint32_t> so_far;
  std::map<std::uint32_t, NodeIndex> first;
  std::vector<std::tuple<std::uint32_t, NodeIndex, NodeIndex>> order;
  for (NodeIndex node : homes) order.emplace_back(so_far[group(node)]++, first.emplace(group(node), node).first->second, node);
  std::sort(order.begin(), order.end());
  std::vector<NodeIndex> out;
  for (const auto& [turn, leader, node] : order) out.push_back(node);
  return out;
}

Protection::Needs Protection::needs(const StoredWave& wave, const Serving& serving, const Serves& takes) {
  // Where each image is read.
  std::vector<NodeIndex> home(wave.ranks.size(), kNowhere);
  std::set<NodeIndex> homes;
  for (std::size_t place = 0; place < wave.ranks.size(); ++place) {
    const StoredRank& image = wave.ranks[place];
    if (image.local && serving(image.node))
      home[place] = image.node;
    else if (const auto copy = std::find_if(image.copies.begin(), image.copies.end(), serving); copy != image.copies.end())
      home[place] = *copy;
    else if (!image.staged)
      return {};  // cannot be completed
    if (home[place] != kNowhere) homes.insert(home[place]);
  }
  if (xor_sets()) return parity(wave, home);
  return copies(wave, home, homes, [&](NodeIndex node) { return serving(node) && takes(node); });
}

std::vector<NodeIndex> Protection::spares(const std::set<NodeIndex>& homes, const Serves& takes) const {
  std::vector<NodeIndex> out;
  for (NodeIndex node = 0; node < nodes_; ++node)
    if (!homes.count(node) && takes(node)) out.push_back(node);
  return out;
}

std::vector<NodeIndex> Protection::partners(const std::vector<NodeIndex>& around, std::size_t at, const std::vector<NodeIndex>& spares,
                                            const Serves& takes, std::size_t most) const {
  const NodeIndex from = around[at];
  std::vector<NodeIndex> out;
  const auto choose = [&](const std::vector<NodeIndex>& among, std::size_t begin, bool same_group, bool in_trouble) {
    for (std::size_t i = 0; i < among.size() && out.size() < most; ++i) {
      const NodeIndex node = among[(begin + i) % among.size()];
      if (node == from || !takes(node) || (group(node) == group(from)) != same_group || troubled(node, from) != in_trouble) continue;
      out.push_back(node);
    }
  };
  for (bool in_trouble : {false, true}) {
    for (bool same_group : {false, true}) choose(around, at + 1, same_group, in_trouble);
    for (bool same_group : {false, true}) choose(spares, at, same_group, in_trouble);
  }
  return out;
}

std::vector<NodeIndex> Protection::partners(NodeIndex from, const std::set<NodeIndex>& homes, const Serves& takes, std::size_t most) const {
  const std::vector<NodeIndex> around = ring(homes);
  const auto at = std::find(around.begin(), around.end(), from);
  if (at == around.end()) return {};
  return partners(around, static_cast<std::size_t>(at - around.begin()), spares(homes, takes), takes, most);
}

Protection::Needs Protection::copies(const StoredWave& wave, const std::vector<NodeIndex>& home, const std::set<NodeIndex>& homes,
                                     const Serves& takes) const {
  const std::vector<NodeIndex> around = ring(homes), others = spares(homes, takes);
  const std::size_t wanted = redundancy_.count();
  std::map<NodeIndex, std::vector<NodeIndex>> partners;
  for (std::size_t at = 0; at < around.size(); ++at) partners[around[at]] = this->partners(around, at, others, takes, wanted);

  std::map<NodeIndex, std::map<NodeIndex, std::vector<Rank>>> missing;  // by receiver, then by source
  const Roster roster = wave.roster();
  for (std::size_t place = 0; place < wave.ranks.size(); ++place) {
    if (home[place] == kNowhere) continue;
    const StoredRank& image = wave.ranks[place];
    std::size_t have = image.nodes() - 1;
    for (NodeIndex node : partners[home[place]]) {
      if (have >= wanted) break;
      if (image.on(node)) continue;
      missing[node][home[place]].push_back(roster.number(place));
      ++have;
    }
  }
  Needs out;
  for (auto& [to, sources] : missing) out[to] = {sources.begin(), sources.end()};
  return out;
}

Protection::Needs Protection::parity(const StoredWave& wave, const std::vector<NodeIndex>& home) {
  std::map<NodeIndex, std::vector<Rank>> images;
  const Roster roster = wave.roster();
  for (std::size_t place = 0; place < home.size(); ++place)
    if (home[place] != kNowhere) images[home[place]].push_back(roster.number(place));
  // Sets of which each node still has what it had.
  std::vector<StoredSet> sets;
  std::set<NodeIndex> open;
  for (const auto& [node, ranks] : images) open.insert(node);
  for (const StoredSet& set : wave.sets) {
    const bool holds = std::all_of(set.members.begin(), set.members.end(), [&](const StoredSet::Member& member) {
      const auto found = images.find(member.node);
      return found != images.end() && found->second == member.ranks;
    });
    if (!holds) continue;
    for (const StoredSet::Member& member : set.members) open.erase(member.node);
    sets.push_back(set);
  }
  if (open.size() == 1 && !sets.empty()) {
    for (const StoredSet::Member& member : sets.back().members) open.insert(member.node);
    sets.pop_back();
  }
  formed_.clear();
  if (open.size() > 1)
    for (const std::vector<NodeIndex>& nodes : in_sets(ring(open), redundancy_.count())) {
      StoredSet& set = formed_.emplace_back();
      for (NodeIndex node : nodes) set.members.push_back({node, images[node], false});
    }
  sets.insert(sets.end(), formed_.begin(), formed_.end());

  Needs out;
  for (const StoredSet& set : sets)
    for (const StoredSet::Member& member : set.members) {
      if (member.parity) continue;
      Sources& sources = out[member.node];
      for (const StoredSet::Member& source : set.members) sources.emplace_back(source.node, source.ranks);
    }
  return out;
}

/** See which wave to copy, and what is missing. A large job has many ranks: only when something has changed. */
void Protection::look(const Store& store, const Serving& serving, const Serves& takes) {
  // What a node is making parity of must not change meanwhile.
  if (xor_sets() && !ordered_.empty()) return;
  seen_ = store.version();
  open_.clear();
  formed_.clear();
  // Finish the wave that was begun: if waves come faster than they can be copied, none would ever be safe.
  if (const StoredWave* wave = store.find(wave_)) open_ = needs(*wave, serving, takes);
  if (open_.empty() && ordered_.empty()) {
    wave_ = 0;
    formed_.clear();
    if (const auto newest = store.newest()) open_ = needs(*store.find(*newest), serving, takes);
    if (!open_.empty()) wave_ = *store.newest();
  }
  // What is ordered may still arrive.
  for (const auto& [node, order] : ordered_) open_.erase(node);
}

Protection::Step Protection::next(const Store& store, const Serving& serving, const Serves& takes, Now now) {
  Step out;
  if (!on()) return out;
  if (seen_ != store.version()) look(store, serving, takes);
  const StoredWave* wave = store.find(wave_);
  if (!wave) return out;
  out.wave = wave_;
  out.formed = std::exchange(formed_, {});
  const auto ready = [&](NodeIndex to, NodeIndex from) {
    const auto trouble = trouble_.find({to, from});
    return serving(from) && (trouble == trouble_.end() || now.ms >= trouble->second.not_before_ms);
  };
  for (auto at = open_.begin(); at != open_.end();) {
    const NodeIndex to = at->first;
    Order order{to, {}};
    order.message.set_wave(wave_);
    const bool all = std::all_of(at->second.begin(), at->second.end(), [&](const auto& source) { return ready(to, source.first); });
    // Parity needs all images at the same time, a copy only its own.
    for (const auto& [from, ranks] : at->second) {
      if (xor_sets() ? !all : !ready(to, from)) continue;
      ImageSource& source = *order.message.add_sources();
      source.set_node(from);
      *source.mutable_from() = *serving(from);
      for (Rank rank : ranks) *source.add_images() = stored_image(*wave, rank);
      ordered_[to].sources.insert(from);
    }
    if (order.message.sources().empty()) {
      ++at;
      continue;
    }
    if (!all) seen_.reset();  // look again when it has answered
    out.orders.push_back(std::move(order));
    at = open_.erase(at);
  }
  return out;
}

void Protection::done(NodeIndex from, const ProtectDone& message, Now now) {
  const auto order = ordered_.find(from);
  if (order == ordered_.end() || message.wave() != wave_) return;
  Ordered& ordered = order->second;
  bool well = message.error().empty() && message.unreachable().empty();
  for (const RankStaged& rank : message.ranks()) well &= rank.error().empty();
  for (NodeIndex source : well ? std::set<NodeIndex>{} : ordered.sources) {
    const auto& silent = message.unreachable();
    if (silent.empty() || std::find(silent.begin(), silent.end(), source) != silent.end()) ordered.failed.insert(source);
  }
  if (!message.finished()) return;
  for (NodeIndex source : ordered.sources) {
    if (!ordered.failed.count(source)) {
      trouble_.erase({from, source});
      continue;
    }
    Trouble& trouble = trouble_[{from, source}];
    trouble.not_before_ms = now.ms + std::min(kAgainMostMs, kAgainMs << std::min(trouble.times, 10u));
    ++trouble.times;
    seen_.reset();
  }
  ordered_.erase(order);
  if (open_.empty() && ordered_.empty()) seen_.reset();  // a newer wave may wait
}

void Protection::node_lost(NodeIndex node) {
  node_joined(node);
  ordered_.erase(node);
}

void Protection::node_joined(NodeIndex node) {
  seen_.reset();
  std::erase_if(trouble_, [&](const auto& one) { return one.first.first == node || one.first.second == node; });
}

void Protection::reset() {
  wave_ = 0;
  open_.clear();
  formed_.clear();
  ordered_.clear();
  seen_.reset();
}

}  // namespace reprise::job
