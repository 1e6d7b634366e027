// SPDX-License-Identifier: GPL-2.0-only
#include "kept_copies.h"

#include <algorithm>
#include <cerrno>

namespace reprise::job {

namespace {

/** @return the newest version that a node hands out; nothing: there is none */
const KeptCopy* newest(const std::map<NodeIndex, KeptCopy>& on, const Serving& serving) {
  const KeptCopy* out = nullptr;
  for (const auto& [node, copy] : on)
    if (serving(node) && (!out || copy.version() > out->version())) out = &copy;
  return out;
}

KeepCopy order(NodeIndex to, const KeptCopy& copy, const std::map<NodeIndex, KeptCopy>& on, const Serving& serving) {
  KeepCopy out;
  out.set_to(to);
  *out.mutable_copy() = copy;
  for (const auto& [node, other] : on) {
    const Relaying* from = other.version() == copy.version() ? serving(node) : nullptr;
    if (!from) continue;
    ImageSource& source = *out.add_sources();
    source.set_node(node);
    *source.mutable_from() = *from;
  }
  return out;
}

}  // namespace

void KeptCopies::has(NodeIndex node, const HasCopy& message) {
  const KeptCopy& copy = message.copy();
  const Name name{copy.rank(), copy.name()};
  auto found = memories_.find(name);
  if (found == memories_.end()) {
    const auto first = memories_.lower_bound({copy.rank(), ""}), end = memories_.lower_bound({copy.rank() + 1, ""});
    if (!message.error().empty() || static_cast<std::size_t>(std::distance(first, end)) >= kMost) return;
    found = memories_.emplace(name, Memory{}).first;
  }
  Memory& memory = found->second;
  memory.look = true;
  const auto ordered = memory.ordered.find(node);
  if (ordered != memory.ordered.end() && ordered->second <= copy.version()) memory.ordered.erase(ordered);
  if (!message.error().empty()) {
    memory.failed.insert(node);
    return;
  }
  const bool newer = std::all_of(memory.on.begin(), memory.on.end(),
                                 [&](const auto& one) { return one.second.version() < copy.version(); });
  if (newer) memory.failed.clear();
  KeptCopy& its = memory.on[node];
  if (its.version() <= copy.version()) its = copy;
  if (message.asked()) memory.asked = copy.version();
}

KeptCopies::Step KeptCopies::next(const Home& home, const Partners& partners, const Serving& serving) {
  Step step;
  for (auto& [name, memory] : memories_)
    if (std::exchange(memory.look, false)) look(name, memory, home, partners, serving, step);
  return step;
}

void KeptCopies::look(const Name& name, Memory& memory, const Home& home, const Partners& partners, const Serving& serving, Step& step) {
  const std::optional<NodeIndex> own = home(name.first);
  const KeptCopy* copy = newest(memory.on, serving);
  if (!own || !copy) return;
  const auto has = [&](NodeIndex node) {
    const auto found = memory.on.find(node);
    return found != memory.on.end() && found->second.version() == copy->version() && serving(node);
  };
  std::size_t elsewhere = 0, reading = 0;
  for (const auto& [node, one] : memory.on) elsewhere += node != *own && has(node);
  for (const auto& [node, version] : memory.ordered) reading += version == copy->version();
  const std::size_t tried = memory.failed.size() + memory.ordered.size() + memory.on.size();
  for (NodeIndex node : partners(*own, wanted_ + tried)) {
    if (elsewhere + reading >= wanted_) break;
    if (node == *own || has(node) || memory.ordered.count(node) || memory.failed.count(node)) continue;
    memory.ordered[node] = copy->version();
    step.orders.push_back(order(node, *copy, memory.on, serving));
    ++reading;
  }
  if (reading || memory.asked != copy->version()) return;
  memory.asked = 0;
  KeptCopied answer;
  *answer.mutable_copy() = *copy;
  if (!elsewhere) {
    answer.set_status(EHOSTUNREACH);
    answer.set_why(memory.failed.empty() ? "no other node takes copies now" : "no other node could keep a copy");
  }
  step.answers.emplace_back(*own, std::move(answer));
}

void KeptCopies::fill(Recover& message, const Serving& serving) const {
  std::map<Rank, NodeIndex> where;
  for (const Placement& place : message.placement()) where[place.rank()] = place.node();
  for (Rank rank : message.restart()) {
    const auto to = where.find(rank);
    if (to == where.end()) continue;
    for (auto memory = memories_.lower_bound({rank, ""}); memory != memories_.end() && memory->first.first == rank; ++memory) {
      const KeptCopy* copy = newest(memory->second.on, serving);
      if (copy && copy->wave() >= message.wave()) *message.add_kept() = order(to->second, *copy, memory->second.on, serving);
    }
  }
}

void KeptCopies::node_lost(NodeIndex node) {
  for (auto& [name, memory] : memories_) {
    memory.on.erase(node);
    memory.ordered.erase(node);
    memory.failed.erase(node);
    memory.look = true;
  }
  std::erase_if(memories_, [](const auto& one) { return one.second.on.empty(); });
}

void KeptCopies::look_again() {
  for (auto& [name, memory] : memories_) {
    memory.failed.clear();
    memory.look = true;
  }
}

void KeptCopies::prune(WaveNumber oldest) {
  for (auto& [name, memory] : memories_) std::erase_if(memory.on, [&](const auto& one) { return one.second.wave() < oldest; });
  std::erase_if(memories_, [](const auto& one) { return one.second.on.empty(); });
}

}  // namespace reprise::job
