// SPDX-License-Identifier: GPL-2.0-only
#include "job/relay.h"

#include <algorithm>

namespace reprise::job {

std::optional<std::uint32_t> Tree::parent(std::uint32_t node) const {
  if (node < fan_out_) return std::nullopt;
  return node / fan_out_ - 1;
}

std::vector<std::uint32_t> Tree::children(std::uint32_t node) const {
  std::vector<std::uint32_t> out;
  const std::uint64_t first = (static_cast<std::uint64_t>(node) + 1) * fan_out_;
  for (std::uint64_t child = first; child < first + fan_out_ && child < nodes_; ++child)
    out.push_back(static_cast<std::uint32_t>(child));
  return out;
}

std::vector<std::uint32_t> Tree::below(std::uint32_t node) const {
  std::vector<std::uint32_t> out{node};
  for (std::size_t i = 0; i < out.size(); ++i)
    for (std::uint32_t child : children(out[i])) out.push_back(child);
  return out;
}

Relay::Relay(std::uint32_t self, std::string instance, std::map<std::uint32_t, std::set<std::uint32_t>> children,
             std::uint64_t patience_ms)
    : self_(self), instance_(std::move(instance)), children_(std::move(children)), patience_ms_(patience_ms) {}

void Relay::placement(const std::vector<std::uint32_t>& node_of_rank) {
  node_of_rank_ = node_of_rank;
  ranks_of_.clear();
  ranks_below_ = 0;
  std::set<std::uint32_t> below{self_};
  for (const auto& [child, nodes] : children_) below.insert(nodes.begin(), nodes.end());
  for (std::uint32_t rank = 0; rank < node_of_rank_.size(); ++rank)
    if (below.count(node_of_rank_[rank])) {
      ranks_of_[node_of_rank_[rank]].insert(rank);
      ++ranks_below_;
    }
}

Up Relay::head() const {
  Up out;
  out.set_from(self_);
  out.set_instance(instance_);
  return out;
}

template <class Field>
std::optional<Up> Relay::join(Key key, const Up& message, Field field, std::uint64_t now_ms) {
  auto [at, fresh] = open_.try_emplace(key);
  Joined& joined = at->second;
  auto* out = field(joined.message);
  Up copy = message;
  const auto* in = field(copy);
  if (fresh) {
    joined.since_ms = now_ms;
    out->CopyFrom(*in);
    out->clear_ranks();
  }
  joined.message.set_recovery(std::max(joined.message.recovery(), message.recovery()));
  std::set<std::uint32_t>& sent = sent_[key];
  for (const auto& rank : in->ranks()) {
    if (sent.count(rank.rank()) || !joined.ranks.insert(rank.rank()).second) continue;
    *out->add_ranks() = rank;
    joined.urgent |= !rank.error().empty();
  }
  if (!joined.urgent && sent.size() + joined.ranks.size() < ranks_below_) return std::nullopt;
  Up done = head();
  done.set_recovery(joined.message.recovery());
  field(done)->Swap(out);
  sent.insert(joined.ranks.begin(), joined.ranks.end());
  open_.erase(at);
  return done;
}

std::vector<Up> Relay::up(const Up& message, std::uint64_t now_ms) {
  std::optional<Up> out;
  switch (message.what_case()) {
    case Up::kWaveDone:
      out = join({Up::kWaveDone, message.wave_done().wave()}, message, [](Up& up) { return up.mutable_wave_done(); },
                 now_ms);
      break;
    case Up::kRestored:
      // Without ranks it is the word of a node that its ranks which moved have ended: that is the node's own.
      if (message.restored().ranks().empty()) {
        out = message;
        break;
      }
      out = join({Up::kRestored, message.restored().recovery()}, message,
                 [](Up& up) { return up.mutable_restored(); }, now_ms);
      break;
    case Up::kResumed:
      out = join({Up::kResumed, message.resumed().recovery()}, message, [](Up& up) { return up.mutable_resumed(); },
                 now_ms);
      break;
    case Up::kHeartbeat: {
      // A daemon's own takes those of the others along.
      if (message.from() != self_) {
        beats_.insert(message.from());
        beats_.insert(message.heartbeat().nodes().begin(), message.heartbeat().nodes().end());
        return {};
      }
      out = message;
      for (std::uint32_t node : beats_) out->mutable_heartbeat()->add_nodes(node);
      beats_.clear();
      break;
    }
    default: out = message; break;
  }
  if (!out) return {};
  return {std::move(*out)};
}

std::vector<Up> Relay::tick(std::uint64_t now_ms) {
  std::vector<Up> out;
  for (auto at = open_.begin(); at != open_.end();) {
    if (now_ms < at->second.since_ms + patience_ms_) {
      ++at;
      continue;
    }
    Up message = head();
    message.MergeFrom(at->second.message);
    message.set_from(self_);
    message.set_instance(instance_);
    sent_[at->first].insert(at->second.ranks.begin(), at->second.ranks.end());
    out.push_back(std::move(message));
    at = open_.erase(at);
  }
  return out;
}

std::vector<std::uint32_t> Relay::down(const Down& message) {
  const auto table = [this](const auto& placements) {
    std::vector<std::uint32_t> node_of_rank(placements.size());
    for (const Placement& one : placements)
      if (one.rank() < node_of_rank.size()) node_of_rank[one.rank()] = one.node();
    // Answers to what was before are void, and nobody waits for them.
    open_.clear();
    sent_.clear();
    placement(node_of_rank);
  };
  if (message.has_launch()) table(message.launch().placement());
  if (message.has_recover()) table(message.recover().placement());
  if (message.has_wave_begin())
    std::erase_if(sent_, [&](const auto& one) { return one.first.first == Up::kWaveDone; });
  std::vector<std::uint32_t> out;
  for (const auto& [child, nodes] : children_) {
    const bool wanted = message.to().empty() || std::any_of(message.to().begin(), message.to().end(),
                                                            [&nodes = nodes](std::uint32_t to) { return nodes.count(to) > 0; });
    if (wanted) out.push_back(child);
  }
  return out;
}

void Relay::child_lost(std::uint32_t child) {
  children_.erase(child);
  placement(node_of_rank_);
}

}  // namespace reprise::job
