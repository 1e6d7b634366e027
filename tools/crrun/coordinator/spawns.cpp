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

std::string Spawns::words() const {
  return "processes that were started by MPI_Comm_spawn still run (" + std::to_string(where().size()) + ")";
}

void Spawns::roll_back(WaveNumber wave) {
  std::erase_if(all_, [&](const auto& one) { return one.second.wave < wave; });
  for (auto& [first, family] : all_) family.voided = true;
}

void Spawns::forget_before(WaveNumber wave) {
  std::erase_if(all_, [&](const auto& one) {
    const Family& family = one.second;
    return family.wave < wave && (family.voided || (family.ended && family.all_said()));
  });
}

void Spawns::node_lost(NodeIndex node) {
  for (auto& [first, family] : all_) family.awaited.erase(node);
}

}  // namespace reprise::job
