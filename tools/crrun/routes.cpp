// SPDX-License-Identifier: GPL-2.0-only
#include "routes.h"

#include <algorithm>

#include "job/names.h"

namespace reprise::job {

bool Routes::through(const Peer& peer, NodeIndex node, const std::string& instance) const {
  const auto found = routes_.find(node);
  return found != routes_.end() && found->second.relayed && found->second.open && found->second.peer == peer &&
         found->second.instance == instance;
}

bool Routes::up(const Peer& peer, Up& up) {
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
      Route& route = routes_[below[i].node()];
      route.seen = std::max(route.seen, below[i].seen());
    }
  }
  if (up.has_child_gone()) {
    if (!through(peer, up.child_gone().node(), up.child_gone().instance())) return false;
    routes_[up.child_gone().node()].open = false;
  }
  return true;
}

void Routes::own_up(const Peer& peer, const Up& up) {
  const NodeIndex node = up.from();
  owners_[peer] = {node, up.instance()};
  if (up.has_hello()) {
    if (up.hello().has_relaying() && !up.hello().relaying().endpoints().empty())
      relaying_[node] = up.hello().relaying();
    else
      relaying_.erase(node);
  }
  Route& route = routes_[node];
  if (route.relayed && !up.has_hello()) return;
  if (up.has_hello()) {
    // Messages that were sent to it through others may be lost: `seen` says which it has. A new process has missed
    // nothing.
    route.waiting = (route.relayed || route.waiting) && route.instance == up.instance();
    route.relayed = false;
    route.open = true;
    route.seen = up.hello().seen();
  }
  route.peer = peer;
  route.instance = up.instance();
}

bool Routes::relayed_up(const Peer& peer, NodeIndex owner, const Up& up) {
  const auto above = routes_.find(owner);
  if (above == routes_.end() || above->second.relayed || above->second.peer != peer) return false;
  if (!up.has_hello()) return through(peer, up.from(), up.instance());
  Route& route = routes_[up.from()];
  // The daemon may have connected itself while this message was on its route.
  if (!route.relayed && route.instance == up.instance()) return false;
  // A process that is still the same has missed nothing; a new one gets no earlier messages.
  const bool same = route.relayed && route.instance == up.instance();
  if (!same) route.seen = sequence_;
  route.peer = peer;
  route.instance = up.instance();
  route.relayed = route.open = true;
  route.waiting = false;
  relaying_.erase(up.from());
  if (up.hello().has_relaying() && !up.hello().relaying().endpoints().empty()) relaying_[up.from()] = up.hello().relaying();
  return true;
}

std::vector<Routes::Copy> Routes::down(Down message, const std::vector<NodeIndex>& living) {
  // In the order of sending: an answer to a heartbeat may overtake messages that wait for the disk.
  message.set_sequence(++sequence_);
  const auto down = std::make_shared<const Down>(std::move(message));
  std::vector<Copy> out;
  std::set<Peer> sent;
  std::vector<NodeIndex> welcomed;
  bool keep = false;
  const auto to = [&](NodeIndex node) {
    const auto found = routes_.find(node);
    if (found == routes_.end()) return;
    Route& route = found->second;
    const bool indirect = route.relayed || route.waiting;
    keep |= indirect;
    if (route.waiting && !down->has_welcome() && !down->has_heartbeat()) return;
    if (route.waiting && down->has_welcome()) welcomed.push_back(node);
    if ((!route.relayed || route.open) && sent.insert(route.peer).second) out.push_back({route.peer, down});
  };
  if (down->to().empty())
    for (NodeIndex node : living) to(node);
  for (NodeIndex node : down->to()) to(node);

  for (NodeIndex node : welcomed) {
    Route& route = routes_[node];
    route.waiting = false;
    // A daemon that was given up starts over.
    if (down->welcome().stale()) continue;
    for (const auto& old : journal_)
      if (old->sequence() > route.seen &&
          (old->to().empty() || std::find(old->to().begin(), old->to().end(), node) != old->to().end()))
        out.push_back({route.peer, old});
  }
  if (keep && !down->has_welcome() && !down->has_heartbeat()) journal_.push_back(down);
  if (journal_.size() >= prune_at_) prune();
  return out;
}

void Routes::prune() {
  std::uint64_t all = sequence_;
  for (const auto& [node, route] : routes_)
    if (route.relayed || route.waiting) all = std::min(all, route.seen);
  while (!journal_.empty() && journal_.front()->sequence() <= all) journal_.pop_front();
  prune_at_ = std::max<std::size_t>(64, 2 * journal_.size());
}

std::optional<std::pair<NodeIndex, std::string>> Routes::closed(const Peer& peer) {
  const auto found = owners_.find(peer);
  if (found == owners_.end()) return std::nullopt;
  for (auto& [node, route] : routes_)
    if (route.relayed && route.peer == peer) route.open = false;
  relaying_.erase(found->second.first);
  return found->second;
}

void Routes::stopped(NodeIndex node) {
  relaying_.erase(node);
  const auto found = routes_.find(node);
  if (found == routes_.end()) return;
  if (found->second.relayed) {
    routes_.erase(found);
    return;
  }
  for (auto& [other, route] : routes_)
    if (route.relayed && route.peer == found->second.peer) route.open = false;
}

std::optional<NodeIndex> Routes::via(NodeIndex node) const {
  const auto found = routes_.find(node);
  if (found == routes_.end() || !found->second.relayed) return std::nullopt;
  return node_of_connection(found->second.peer);
}

const Relaying* Routes::relaying(NodeIndex node) const {
  const auto found = relaying_.find(node);
  return found == relaying_.end() ? nullptr : &found->second;
}

}  // namespace reprise::job
