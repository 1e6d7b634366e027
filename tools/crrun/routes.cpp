// SPDX-License-Identifier: GPL-2.0-only
#include "routes.h"

#include <set>

#include "job/names.h"

namespace reprise::job {

bool Routes::through(const Peer& peer, NodeIndex node, const std::string& instance) const {
  const auto found = routes_.find(node);
  return found != routes_.end() && found->second.relayed && found->second.open && found->second.peer == peer &&
         found->second.instance == instance;
}

bool Routes::up(const Peer& peer, Up& up) {
  const NodeIndex owner = node_of_connection(peer).value_or(up.from());
  if (!(owner == up.from() ? own_up(peer, up) : relayed_up(peer, owner, up))) return false;
  const auto note = [](Route& route, const auto& beat) {
    route.outgoing.confirm(beat.seen());
    // Joined answers have no numbers; but like everything else they went ahead of this heartbeat.
    route.incoming.complete(beat.sent());
  };
  Route& route = routes_[up.from()];
  if (up.sequence() && !route.incoming.accept(up.sequence())) return false;
  if (up.has_heartbeat()) {
    note(route, up.heartbeat());
    auto& below = *up.mutable_heartbeat()->mutable_below();
    for (int i = below.size() - 1; i >= 0; --i) {
      if (through(peer, below[i].node(), below[i].instance()))
        note(routes_[below[i].node()], below[i]);
      else
        below.DeleteSubrange(i, 1);
    }
  }
  if (up.has_child_gone()) {
    if (!through(peer, up.child_gone().node(), up.child_gone().instance())) return false;
    routes_[up.child_gone().node()].open = false;
  }
  return true;
}

bool Routes::own_up(const Peer& peer, const Up& up) {
  if (up.has_hello()) {
    owners_[peer] = {up.from(), up.instance()};
    hello(peer, up, false);
    return true;
  }
  // A daemon is not known before its Hello. After it, messages of the node's earlier daemon may still arrive.
  const auto found = routes_.find(up.from());
  return found != routes_.end() && !found->second.relayed && found->second.instance == up.instance();
}

bool Routes::relayed_up(const Peer& peer, NodeIndex owner, const Up& up) {
  const auto above = routes_.find(owner);
  if (above == routes_.end() || above->second.relayed || above->second.peer != peer) return false;
  if (!up.has_hello()) return through(peer, up.from(), up.instance());
  // The daemon may have connected itself while this message was on its way.
  const auto found = routes_.find(up.from());
  if (found != routes_.end() && !found->second.relayed && found->second.instance == up.instance()) return false;
  hello(peer, up, true);
  return true;
}

void Routes::hello(const Peer& peer, const Up& up, bool relayed) {
  Route& route = routes_[up.from()];
  if (route.instance != up.instance()) route = {};
  // If the daemon has missed this crrun's Welcome, what it has seen was another one's.
  if (up.hello().crrun() == crrun_) route.outgoing.confirm(up.hello().seen());
  route.peer = peer;
  route.instance = up.instance();
  route.relayed = relayed;
  route.open = true;
  route.ready = false;
  if (up.hello().has_relaying() && !up.hello().relaying().endpoints().empty())
    relaying_[up.from()] = up.hello().relaying();
  else
    relaying_.erase(up.from());
}

std::uint64_t Routes::seen(NodeIndex node) const {
  const auto found = routes_.find(node);
  return found == routes_.end() ? 0 : found->second.incoming.last();
}

/** Say what has arrived, in an answer to heartbeats or a Welcome. */
void Routes::confirm(Down& down) const {
  if (down.has_heartbeat() && down.to_size()) {
    // The first receiver is the sender of the heartbeat.
    down.mutable_heartbeat()->set_seen(seen(down.to(0)));
    for (RelayedBeat& one : *down.mutable_heartbeat()->mutable_below()) one.set_seen(seen(one.node()));
  }
  if (!down.has_welcome()) return;
  down.mutable_welcome()->set_crrun(crrun_);
  // A Welcome to all is the first one for each of them: nothing counted can have arrived.
  if (down.to_size() == 1) down.mutable_welcome()->set_seen(seen(down.to(0)));
}

std::vector<Routes::Copy> Routes::down(Down message, const std::vector<NodeIndex>& living) {
  if (counted(message)) message.set_sequence(++sequence_);
  confirm(message);
  const auto down = std::make_shared<const Down>(std::move(message));
  std::vector<Copy> out;
  std::set<Peer> sent;
  std::vector<const Route*> welcomed;
  const auto to = [&](NodeIndex node) {
    const auto found = routes_.find(node);
    if (found == routes_.end()) return;
    Route& route = found->second;
    if (counted(*down)) {
      if (!route.member) return;
      route.outgoing.add(down);
      if (!route.ready) return;
    }
    if (down->has_welcome() && !down->welcome().stale()) {
      route.member = route.ready = true;
      welcomed.push_back(&route);
    }
    if (route.open && sent.insert(route.peer).second) out.push_back({route.peer, down});
  };
  if (down->to().empty())
    for (NodeIndex node : living) to(node);
  for (NodeIndex node : down->to()) to(node);
  for (const Route* route : welcomed)
    for (const auto& missed : route->outgoing.kept())
      if (route->open) out.push_back({route->peer, missed});
  return out;
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
  Route& route = found->second;
  route.member = false;
  route.outgoing.clear();
  for (auto& [other, below] : routes_)
    if (below.relayed && below.peer == route.peer) below.open = false;
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

std::size_t Routes::kept(NodeIndex node) const {
  const auto found = routes_.find(node);
  return found == routes_.end() ? 0 : found->second.outgoing.kept().size();
}

}  // namespace reprise::job
