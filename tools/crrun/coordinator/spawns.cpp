// SPDX-License-Identifier: GPL-2.0-only
#include "spawns.h"

#include <algorithm>

namespace reprise::job {

namespace {

/** More processes on one node are taken for a mistake; they would also fill the tables here. */
constexpr std::size_t kMostOnNode = 1024;

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> out{""};
  for (const char c : list) {
    if (c == ',')
      out.emplace_back();
    else
      out.back() += c;
  }
  // Ignore a number of slots behind a host: crrun uses its own.
  for (std::string& host : out) host = host.substr(0, host.find(':'));
  return out;
}

}  // namespace

std::optional<PlacementTable> place_spawned(const std::vector<SpawnApp>& apps, const std::vector<Seat>& seats,
                                            const std::map<NodeIndex, std::uint32_t>& used,
                                            const std::map<std::string, NodeIndex>& nodes) {
  std::map<NodeIndex, std::uint32_t> load = used;
  PlacementTable out;
  for (const SpawnApp& app : apps) {
    std::vector<Seat> usable;
    std::set<NodeIndex> wanted;
    if (!app.hosts().empty())
      for (const std::string& host : split(app.hosts())) {
        const auto found = nodes.find(host);
        if (found == nodes.end()) return std::nullopt;
        wanted.insert(found->second);
      }
    for (const Seat& seat : seats)
      if (seat.usable && seat.slots && (wanted.empty() || wanted.count(seat.node))) usable.push_back(seat);
    if (usable.empty()) return std::nullopt;
    std::uint32_t left = app.processes();
    if (out.size() + left > kMostOnNode * usable.size()) return std::nullopt;
    for (const Seat& seat : usable)
      for (; left && load[seat.node] < seat.slots; --left) {
        out.push_back(seat.node);
        ++load[seat.node];
      }
    for (std::size_t turn = 0; left; --left, ++turn) {
      out.push_back(usable[turn % usable.size()].node);
      ++load[out.back()];
    }
  }
  return out;
}

bool Family::all_started() const {
  return std::all_of(processes.begin(), processes.end(), [](const Process& one) { return one.started; });
}
bool Family::any_ended() const {
  return std::any_of(processes.begin(), processes.end(), [](const Process& one) { return one.ended; });
}
bool Family::all_ended() const {
  return std::all_of(processes.begin(), processes.end(), [](const Process& one) { return one.ended; });
}
bool Family::all_said() const {
  return std::all_of(processes.begin(), processes.end(),
                     [](const Process& one) { return one.output[0].ended && one.output[1].ended; });
}

Family& Spawns::add(Family family) {
  // The repetition of a namespace that a recovery voided: output that it repeats is not printed again.
  for (auto& [first, old] : all_) {
    const auto same = [](const SpawnApp& a, const SpawnApp& b) {
      return a.processes() == b.processes() && std::equal(a.argv().begin(), a.argv().end(), b.argv().begin(), b.argv().end());
    };
    if (!old.voided || old.parent != family.parent ||
        !std::equal(old.apps.begin(), old.apps.end(), family.apps.begin(), family.apps.end(), same))
      continue;
    family.processes = std::move(old.processes);
    for (Family::Process& process : family.processes) {
      for (OutputStream& stream : process.output) stream.rolled_back(0), stream.ended = false, stream.told = 0;
      process.started = process.ready = process.ended = false;
      process.restarts = 0;
    }
    all_.erase(first);
    break;
  }
  family.processes.resize(family.nodes.size());
  const Rank first = family.first;
  return all_[first] = std::move(family);
}

Family* Spawns::find(Rank number) {
  auto after = all_.upper_bound(number);
  if (after == all_.begin()) return nullptr;
  Family& family = std::prev(after)->second;
  return number - family.first < family.nodes.size() ? &family : nullptr;
}

const Family* Spawns::find(Rank number) const { return const_cast<Spawns*>(this)->find(number); }

Family::Process* Spawns::process(Rank number) {
  Family* family = find(number);
  return family && family->lives() ? &family->processes[number - family->first] : nullptr;
}

const Family::Process* Spawns::process(Rank number) const { return const_cast<Spawns*>(this)->process(number); }

Family* Spawns::by_index(std::uint32_t index) {
  for (auto& [first, family] : all_)
    if (family.index == index) return &family;
  return nullptr;
}

Family* Spawns::asked(NodeIndex node, std::uint64_t question) {
  for (auto& [first, family] : all_)
    if (!family.voided && family.asker == node && family.question == question) return &family;
  return nullptr;
}

bool Spawns::any_live() const {
  return std::any_of(all_.begin(), all_.end(), [](const auto& one) { return one.second.lives(); });
}

bool Spawns::lives_on(NodeIndex node) const { return nodes().count(node) > 0; }

std::set<NodeIndex> Spawns::nodes() const {
  std::set<NodeIndex> out;
  for (const auto& [number, node] : where()) out.insert(node);
  return out;
}

std::map<NodeIndex, std::uint32_t> Spawns::used() const {
  std::map<NodeIndex, std::uint32_t> out;
  for (const auto& [number, node] : where()) ++out[node];
  return out;
}

std::map<Rank, NodeIndex> Spawns::where() const {
  std::map<Rank, NodeIndex> out;
  for (const auto& [first, family] : all_)
    for (Rank rank = 0; family.lives() && rank < family.nodes.size(); ++rank) out[first + rank] = family.nodes[rank];
  return out;
}

std::string Spawns::partly_ended() const {
  std::string out;
  for (const auto& [first, family] : all_)
    if (family.lives() && family.any_ended()) out += (out.empty() ? "" : ", ") + std::to_string(family.index);
  return out;
}

void Spawns::committed() {
  for (auto& [first, family] : all_)
    for (Family::Process& process : family.processes) process.restarts = 0;
}

void Spawns::roll_back(const StoredWave* wave, const PlacementTable& nodes) {
  const auto is_in = [wave](Rank first) { return wave && wave->find(first); };
  std::erase_if(all_, [&](const auto& one) { return wave && one.second.wave < wave->wave && !is_in(one.first); });
  for (auto& [first, family] : all_) family.voided = !is_in(first);
  if (!wave) return;
  const Roster roster = wave->roster();
  for (const StoredFamily& stored : wave->families) {
    Family& family = all_[stored.first];
    const bool known = !family.processes.empty();
    family.processes.resize(stored.count);
    family.nodes.resize(stored.count);
    family.index = stored.index;
    family.first = stored.first;
    family.parent = stored.parent;
    family.apps = stored.apps;
    family.wave = std::min(known ? family.wave : wave->wave, wave->wave);
    family.awaited.clear();
    family.asker = 0;
    family.question = 0;  // a new daemon counts its questions from 1 again, and none is this one
    family.answered = true;
    family.failed = family.ended = false;
    for (Rank rank = 0; rank < stored.count; ++rank) {
      const std::size_t place = *roster.place(stored.first + rank);
      Family::Process& process = family.processes[rank];
      family.nodes[rank] = nodes[place];
      process.started = process.ready = true;
      process.ended = false;
      for (std::size_t i = 0; i < 2; ++i) {
        if (!known) process.output[i].joined_late();
        process.output[i].rolled_back(wave->ranks[place].offsets[i + 1]);
        process.output[i].ended = false;
      }
    }
  }
}

void Spawns::forget(const StoredWaves& waves) {
  std::erase_if(all_, [&](const auto& one) {
    const Family& family = one.second;
    if (!family.voided && !(family.ended && family.all_said())) return false;
    return std::all_of(waves.begin(), waves.end(), [&](const auto& wave) {
      return family.wave < wave.first && !wave.second.find(one.first);
    });
  });
}

void Spawns::node_lost(NodeIndex node) {
  for (auto& [first, family] : all_) family.awaited.erase(node);
}

}  // namespace reprise::job
