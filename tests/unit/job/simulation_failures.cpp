// SPDX-License-Identifier: GPL-2.0-only
// What goes wrong in the simulation.
#include <algorithm>
#include <cerrno>

#include "simulation_parts.h"

namespace reprise::job::sim {

namespace {
constexpr std::uint64_t kSshEndsUs = 20'000;
}  // namespace

void Cluster::kill_node(NodeIndex node) {
  Daemon& daemon = *daemons_[node];
  daemon.host = daemon.alive = false;
  daemon.ranks.clear();
  daemon.spawned.clear();
  // ssh gives up long after.
  later(15'000'000, [this, node, generation = coordinator_generation_] {
    if (!crrun_alive_ || generation != coordinator_generation_ || !daemons_[node]->linked || daemons_[node]->host) return;
    coordinator_->link_ended(node, false, "timed out", now());
    apply();
  });
}

void Cluster::boot_node(NodeIndex node) {
  daemons_[node]->host = true;
  daemons_[node]->alive = false;
}

void Cluster::kill_daemon(NodeIndex node) {
  Daemon& daemon = *daemons_[node];
  if (!daemon.alive) return;
  daemon.alive = false;
  std::vector<Rank> dead;
  for (const auto& [rank, process] : daemon.ranks) dead.push_back(rank);
  daemon.ranks.clear();
  daemon.spawned.clear();
  later(model_.latency_us, [this, dead] { links_break(dead); });
  later(model_.latency_us, [this, node, instance = daemon.instance] {
    if (!crrun_alive_) return;
    coordinator_->connection_closed(node, instance, now());
    apply();
  });
  // With connections between ranks it matters that ssh ends after the kernel has closed all of them.
  later(model_.latency_us + (model_.costs.links ? kSshEndsUs : 0), [this, node] {
    if (!crrun_alive_ || !daemons_[node]->linked) return;
    coordinator_->link_ended(node, false, "its connection ended", now());
    apply();
  });
}

/** The processes of these ranks have ended: their hosts reset all connections. */
void Cluster::links_break(const std::vector<Rank>& dead) {
  if (!model_.costs.links) return;
  std::map<Rank, std::vector<Rank>> lost;
  for (Rank peer : dead)
    for (Rank rank : neighbours(peer, model_.ranks, model_.costs.links)) lost[rank].push_back(peer);
  for (NodeIndex node = 0; node < daemons_.size(); ++node) {
    const Daemon& daemon = *daemons_[node];
    for (const auto& [rank, process] : daemon.ranks)
      if (const auto found = lost.find(rank); found != lost.end() && daemon.may(process))
        report_links(node, rank, process.generation, found->second);
  }
}

/** What crtcp and crd do: they report a break at once, and every 30 s until the peer is reached or the rank rolled back. */
void Cluster::report_links(NodeIndex node, Rank rank, RecoveryNumber generation, const std::vector<Rank>& peers) {
  Daemon& daemon = *daemons_[node];
  const auto found = daemon.ranks.find(rank);
  if (found == daemon.ranks.end() || !daemon.may(found->second) || found->second.generation != generation) return;
  for (Rank peer : peers) {
    Up up;
    LinkLost& lost = *up.mutable_link_lost();
    lost.set_rank(rank);
    lost.set_peer(peer);
    lost.set_error(ECONNRESET);
    lost.set_why("receiving");
    lost.set_recovery(generation);
    if (daemon.lost_links.pass(lost, peer / model_.slots, now_ms())) send_up(node, std::move(up));
  }
  later(30'000'000, [this, node, rank, generation, peers] { report_links(node, rank, generation, peers); });
}

void Cluster::kill_rank(Rank rank, int signal) {
  for (NodeIndex node = 0; node < daemons_.size(); ++node)
    if (daemons_[node]->host && daemons_[node]->alive) {
      if (daemons_[node]->spawned.count(rank)) return spawned_exit(node, rank, signal);
      if (daemons_[node]->ranks.count(rank)) return exit(node, rank, signal);
    }
}

void Cluster::abort(Rank rank, int status) {
  Up up;
  up.mutable_abort()->set_rank(rank);
  up.mutable_abort()->set_status(status);
  if (const auto node = where(rank)) send_up(*node, std::move(up));
}

void Cluster::break_link(Rank one, Rank other, int error) {
  for (NodeIndex node = 0; node < daemons_.size(); ++node) {
    Daemon& daemon = *daemons_[node];
    for (auto [rank, peer] : {std::pair{one, other}, std::pair{other, one}}) {
      const auto found = daemon.ranks.find(rank);
      if (!daemon.host || !daemon.alive || found == daemon.ranks.end() || !found->second.running) continue;
      found->second.stuck |= error == ENODATA;
      if (error == ENODATA) found->second.stuck_with.insert(peer);
      Up up;
      LinkLost& lost = *up.mutable_link_lost();
      lost.set_rank(rank);
      lost.set_peer(peer);
      lost.set_error(error);
      lost.set_why("cut");
      lost.set_recovery(found->second.generation);
      send_up(node, std::move(up));
    }
  }
}

void Cluster::cut(NodeIndex node, bool off) {
  daemons_[node]->cut = off;
  if (off || !daemons_[node]->host || !daemons_[node]->alive) return;
  hello(node);
  say_again(node);  // there may be another crrun
}

void Cluster::damage(WaveNumber wave, Rank rank, bool local, bool staged) {
  for (auto& daemon : daemons_)
    if (auto found = daemon->images.find({wave, rank}); local && found != daemon->images.end()) found->second.damaged = true;
  if (auto found = staged_.find({wave, rank}); staged && found != staged_.end()) found->second.damaged = true;
}

void Cluster::local_full(NodeIndex node, bool full) { daemons_[node]->full = full; }

void Cluster::break_crrun() {
  crrun_alive_ = false;
  ++coordinator_generation_;
  for (auto& daemon : daemons_) daemon->linked = false;
  later(1'000'000, [this] {
    begin(Coordinator::Begin::attach, saved_);
    for (NodeIndex node = 0; node < daemons_.size(); ++node)
      if (daemons_[node]->host && daemons_[node]->alive && !daemons_[node]->cut)
        later(100'000 + some_time(), [this, node] {
          if (!daemons_[node]->host || !daemons_[node]->alive) return;
          hello(node);
          say_again(node);
        });
  });
}

void Cluster::restart_with(std::vector<NodeIndex> dead) {
  for (NodeIndex node = 0; node < daemons_.size(); ++node) {
    daemons_[node]->host = std::find(dead.begin(), dead.end(), node) == dead.end();
    daemons_[node]->alive = false;
    daemons_[node]->ranks.clear();
    daemons_[node]->spawned.clear();
    daemons_[node]->ended.clear();
    daemons_[node]->images.clear();
  }
  begin(Coordinator::Begin::restart, saved_);
}

}  // namespace reprise::job::sim
