// SPDX-License-Identifier: GPL-2.0-only
#include "ways.h"

#include <algorithm>

#include "job/names.h"

namespace reprise::job {

bool Ways::through(const Peer& peer, NodeIndex node, const std::string& instance) const {
  const auto found = ways_.find(node);
  return found != ways_.end() && found->second.relayed && found->second.open && found->second.peer == peer &&
         found->second.instance == instance;
}

bool Ways::up(const Peer& peer, Up& up) {
  const NodeIndex owner = node_of_connection(peer).value_or(up.from());
  if (owner == up.from())
    own_up(peer, up);
  else if (!relayed_up(peer, owner, up))
    return false;
  if (up.has_heartbeat()) {
    auto& below = *up.mutable_heartbeat()->mutable_below();
    for (int i = below.size() - 1; i >= 0; --i) {
      if (!through(peer, below[i].node(), below[i].instance())) {
        below.DeleteSubrange(i, 1);
        continue;
      }
      Way& way = ways_[below[i].node()];
      way.seen = std::max(way.seen, below[i].seen());
    }
  }
  if (up.has_child_gone()) {
    if (!through(peer, up.child_gone().node(), up.child_gone().instance())) return false;
    ways_[up.child_gone().node()].open = false;
  }
  return true;
}

void Ways::own_up(const Peer& peer, const Up& up) {
  const NodeIndex node = up.from();
  owners_[peer] = {node, up.instance()};
  if (up.has_hello()) {
    if (up.hello().has_relaying() && !up.hello().relaying().endpoints().empty())
      relaying_[node] = up.hello().relaying();
    else
      relaying_.erase(node);
  }
  Way& way = ways_[node];
  if (way.relayed && !up.has_hello()) return;
  if (up.has_hello()) {
    // Messages that were sent to it through others may be lost: `seen` says which it has. A new process has missed
    // nothing.
    way.waiting = (way.relayed || way.waiting) && way.instance == up.instance();
    way.relayed = false;
    way.open = true;
    way.seen = up.hello().seen();
  }
  way.peer = peer;
  way.instance = up.instance();
}

bool Ways::relayed_up(const Peer& peer, NodeIndex owner, const Up& up) {
  const auto above = ways_.find(owner);
  if (above == ways_.end() || above->second.relayed || above->second.peer != peer) return false;
  if (!up.has_hello()) return through(peer, up.from(), up.instance());
  Way& way = ways_[up.from()];
  // The daemon may have connected itself while this message was on its way.
  if (!way.relayed && way.instance == up.instance()) return false;
  // A process that is still the same has missed nothing; a new one gets no earlier messages.
  const bool same = way.relayed && way.instance == up.instance();
  if (!same) way.seen = sequence_;
  way.peer = peer;
  way.instance = up.instance();
  way.relayed = way.open = true;
  way.waiting = false;
  relaying_.erase(up.from());
  if (up.hello().has_relaying() && !up.hello().relaying().endpoints().empty()) relaying_[up.from()] = up.hello().relaying();
  return true;
}

std::vector<Ways::Copy> Ways::down(Down message, const std::vector<NodeIndex>& living) {
  // In the order of sending: an answer to a heartbeat may overtake messages that wait for the disk.
  message.set_sequence(++sequence_);
  const auto down = std::make_shared<const Down>(std::move(message));
  std::vector<Copy> out;
  std::set<Peer> sent;
  std::vector<NodeIndex> welcomed;
  bool keep = false;
  const auto to = [&](NodeIndex node) {
    const auto found = ways_.find(node);
    if (found == ways_.end()) return;
    Way& way = found->second;
    const bool indirect = way.relayed || way.waiting;
    keep |= indirect;
    if (way.waiting && !down->has_welcome() && !down->has_heartbeat()) return;
    if (way.waiting && down->has_welcome()) welcomed.push_back(node);
    if ((!way.relayed || way.open) && sent.insert(way.peer).second) out.push_back({way.peer, down});
  };
  if (down->to().empty())
    for (NodeIndex node : living) to(node);
  for (NodeIndex node : down->to()) to(node);

  for (NodeIndex node : welcomed) {
    Way& way = ways_[node];
    way.waiting = false;
    // A daemon that was given up starts over.
    if (down->welcome().stale()) continue;
    for (const auto& old : journal_)
      if (old->sequence() > way.seen &&
          (old->to().empty() || std::find(old->to().begin(), old->to().end(), node) != old->to().end()))
        out.push_back({way.peer, old});
  }
  if (keep && !down->has_welcome() && !down->has_heartbeat()) journal_.push_back(down);
  if (journal_.size() >= prune_at_) prune();
  return out;
}

void Ways::prune() {
  std::uint64_t all = sequence_;
  for (const auto& [node, way] : ways_)
    if (way.relayed || way.waiting) all = std::min(all, way.seen);
  while (!journal_.empty() && journal_.front()->sequence() <= all) journal_.pop_front();
  prune_at_ = std::max<std::size_t>(64, 2 * journal_.size());
}

std::optional<std::pair<NodeIndex, std::string>> Ways::closed(const Peer& peer) {
  const auto found = owners_.find(peer);
  if (found == owners_.end()) return std::nullopt;
  for (auto& [node, way] : ways_)
    if (way.relayed && way.peer == peer) way.open = false;
  relaying_.erase(found->second.first);
  return found->second;
}

void Ways::stopped(NodeIndex node) {
  relaying_.erase(node);
  const auto found = ways_.find(node);
  if (found == ways_.end()) return;
  if (found->second.relayed) {
    ways_.erase(found);
    return;
  }
  for (auto& [other, way] : ways_)
    if (way.relayed && way.peer == found->second.peer) way.open = false;
}

std::optional<NodeIndex> Ways::via(NodeIndex node) const {
  const auto found = ways_.find(node);
  if (found == ways_.end() || !found->second.relayed) return std::nullopt;
  return node_of_connection(found->second.peer);
}

const Relaying* Ways::relaying(NodeIndex node) const {
  const auto found = relaying_.find(node);
  return found == relaying_.end() ? nullptr : &found->second;
}

}  // namespace reprise::job
