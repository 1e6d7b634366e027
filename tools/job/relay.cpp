// SPDX-License-Identifier: GPL-2.0-only
#include "job/relay.h"

#include <algorithm>
#include <utility>

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
  std::uint32_t last = self_;
  for (const auto& [child, nodes] : children_)
    if (!nodes.empty()) last = std::max(last, *nodes.rbegin());
  std::vector<bool> below(std::size_t{last} + 1);
  below[self_] = true;
  for (const auto& [child, nodes] : children_)
    for (std::uint32_t node : nodes) below[node] = true;
  ranks_below_ = static_cast<std::size_t>(std::count_if(node_of_rank_.begin(), node_of_rank_.end(),
                                                        [&](std::uint32_t node) { return node <= last && below[node]; }));
}

bool Relay::heard(std::uint32_t child, std::uint32_t node) {
  if (child == self_ || node == self_) return false;
  auto& nodes = children_[child];
  if (nodes.count(node)) return true;
  for (auto& [other, theirs] : children_) theirs.erase(node);
  nodes.insert(node);
  placement(std::vector<std::uint32_t>(node_of_rank_));
  return true;
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
  const std::set<std::uint32_t>& sent = sent_[key];
  for (const auto& rank : in->ranks()) {
    if (sent.count(rank.rank()) || !joined.ranks.insert(rank.rank()).second) continue;
    *out->add_ranks() = rank;
    joined.urgent |= !rank.error().empty();
  }
  if (!joined.urgent && sent.size() + joined.ranks.size() < ranks_below_) return std::nullopt;
  return finish(key, std::move(open_.extract(at).mapped()));
}

/** Sends the joined answer in this daemon's name. Its `recovery` is the one in the last message of the daemon itself. */
Up Relay::finish(Key key, Joined joined) {
  sent_[key].insert(joined.ranks.begin(), joined.ranks.end());
  joined.message.set_from(self_);
  joined.message.set_instance(instance_);
  joined.message.set_recovery(recovery_);
  return std::move(joined.message);
}

std::vector<Up> Relay::up(const Up& message, std::uint64_t now_ms) {
  if (message.from() == self_) {
    instance_ = message.instance();
    recovery_ = message.recovery();
  }
  std::optional<Up> out;
  switch (message.what_case()) {
    case Up::kWaveDone:
      out = join({Up::kWaveDone, message.wave_done().wave()}, message, [](Up& up) { return up.mutable_wave_done(); },
                 now_ms);
      break;
    case Up::kRestored:
      // A Restored without ranks says that the ranks which moved away from a node have ended: pass it on as that node's
      // own.
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
      const Heartbeat& beat = message.heartbeat();
      // Hold back the heartbeats of other daemons: the daemon's own heartbeat carries them.
      if (message.from() != self_) {
        RelayedBeat& mine = beats_[message.from()];
        mine.set_node(message.from());
        mine.set_instance(message.instance());
        mine.set_recovery(message.recovery());
        mine.set_unix_ns(beat.unix_ns());
        mine.set_free_local_bytes(beat.free_local_bytes());
        mine.set_image_bytes(beat.image_bytes());
        mine.set_load(beat.load());
        if (beat.has_standing()) *mine.mutable_standing() = beat.standing();
        mine.set_seen(beat.seen());
        mine.set_sent(beat.sent());
        for (const RelayedBeat& other : beat.below())
          if (other.node() != self_) beats_[other.node()] = other;
        if (!beats_since_) beats_since_ = now_ms;
        return {};
      }
      std::vector<Up> all = flush();
      all.push_back(message);
      for (const auto& [node, other] : beats_) *all.back().mutable_heartbeat()->add_below() = other;
      beats_.clear();
      beats_since_.reset();
      return all;
    }
    default: out = message; break;
  }
  if (!out) return {};
  return {std::move(*out)};
}

std::vector<Up> Relay::tick(std::uint64_t now_ms) {
  std::vector<Up> out;
  for (auto at = open_.begin(); at != open_.end();) {
    const auto here = at++;
    if (now_ms < here->second.since_ms + patience_ms_) continue;
    const Key key = here->first;
    out.push_back(finish(key, std::move(open_.extract(here).mapped())));
  }
  return out;
}

std::vector<Up> Relay::flush() {
  std::vector<Up> out;
  for (auto& [key, joined] : std::exchange(open_, {})) out.push_back(finish(key, std::move(joined)));
  return out;
}

std::vector<std::uint32_t> Relay::down(const Down& message) {
  const auto table = [this](const auto& placements) {
    std::vector<std::uint32_t> node_of_rank(placements.size());
    for (const Placement& one : placements)
      if (one.rank() < node_of_rank.size()) node_of_rank[one.rank()] = one.node();
    // Answers to the previous wave or recovery are void: crrun does not wait for them.
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

Down Relay::answer_for(std::uint32_t child, const Down& heartbeat) const {
  const auto found = children_.find(child);
  const auto concerns = [&](std::uint32_t node) { return found != children_.end() && found->second.count(node) > 0; };
  Down out;
  out.set_sequence(heartbeat.sequence());
  for (std::uint32_t node : heartbeat.to())
    if (concerns(node)) out.add_to(node);
  out.mutable_heartbeat()->set_unix_ns(heartbeat.heartbeat().unix_ns());
  for (const RelayedBeat& one : heartbeat.heartbeat().below())
    if (concerns(one.node())) *out.mutable_heartbeat()->add_below() = one;
  return out;
}

void Relay::child_lost(std::uint32_t child) {
  if (const auto gone = children_.extract(child))
    for (std::uint32_t node : gone.mapped()) beats_.erase(node);
  placement(std::vector<std::uint32_t>(node_of_rank_));
}

}  // namespace reprise::job
