// SPDX-License-Identifier: GPL-2.0-only
#include "draining.h"

#include <algorithm>
#include <functional>

namespace reprise::job {

namespace {
std::vector<Draining::Drain> take_if(std::vector<Draining::Drain>& drains, const std::function<bool(const Draining::Drain&)>& wanted) {
  const auto from = std::stable_partition(drains.begin(), drains.end(), [&](const Draining::Drain& drain) { return !wanted(drain); });
  std::vector<Draining::Drain> out(from, drains.end());
  drains.erase(from, drains.end());
  return out;
}
}  // namespace

bool Draining::needs_wave() const {
  return std::any_of(drains_.begin(), drains_.end(), [](const Drain& drain) { return drain.wave == 0; });
}

void Draining::wave_begins(WaveNumber wave) {
  for (Drain& drain : drains_)
    if (!drain.wave) drain.wave = wave;
}

void Draining::wave_aborted(WaveNumber wave) {
  for (Drain& drain : drains_)
    if (drain.wave == wave) drain.wave = 0;
}

void Draining::start_over() {
  for (Drain& drain : drains_) drain.ready = false, drain.wave = 0;
}

Draining::Step Draining::next(const Store& store, const Staging* staging, bool copied, WaveNumber open,
                              const std::function<PlacementTable(const StoredWave&)>& nodes_in) {
  Step out;
  for (Drain& drain : drains_) {
    if (!drain.wave) {
      out.wave_wanted |= !open;
      continue;
    }
    if (drain.wave == open) continue;
    const StoredWave* wave = store.find(drain.wave);
    // A newer wave may have replaced it.
    if (!wave && store.newest()) wave = store.find(*store.newest());
    if (!wave) {
      drain.wave = 0;
      continue;
    }
    std::vector<Rank> left;
    // What was spawned since the wave is spawned again, elsewhere, when the job has gone back to it.
    const Roster roster = wave->roster();
    const PlacementTable nodes = nodes_in(*wave);
    for (std::size_t place = 0; place < nodes.size(); ++place) {
      const Rank rank = roster.number(place);
      if (nodes[place] == drain.node && !wave->ranks[place].staged && !(copied && wave->safe(rank))) left.push_back(rank);
    }
    if (left.empty()) {
      drain.ready = out.move = true;
      continue;
    }
    if (!staging || wave->wave == staging->wave() || staging->busy().count(drain.node)) continue;
    // Other nodes may still be copying an older wave: this node need not wait for them.
    if (std::exchange(drain.told, wave->wave) == wave->wave) continue;
    out.stage.push_back({wave->wave, drain.node, std::move(left)});
  }
  return out;
}

bool Draining::ready(NodeIndex node) const {
  return std::any_of(drains_.begin(), drains_.end(), [&](const Drain& drain) { return drain.node == node && drain.ready; });
}

std::vector<NodeIndex> Draining::ready_nodes() const {
  std::vector<NodeIndex> out;
  for (const Drain& drain : drains_)
    if (drain.ready) out.push_back(drain.node);
  return out;
}

std::vector<Draining::Drain> Draining::take(NodeIndex node) {
  return take_if(drains_, [&](const Drain& drain) { return drain.node == node; });
}

std::vector<Draining::Drain> Draining::take_done(const std::function<bool(NodeIndex)>& in_use) {
  return take_if(drains_, [&](const Drain& drain) { return !in_use(drain.node); });
}

std::vector<Draining::Drain> Draining::take_all() { return std::exchange(drains_, {}); }

}  // namespace reprise::job
