// SPDX-License-Identifier: GPL-2.0-only
// Spawned processes in the simulation.
#include "simulation_parts.h"

namespace reprise::job::sim {

void Cluster::spawn(Rank parent, std::uint32_t count, std::uint64_t lasting_ms) {
  Up up;
  up.mutable_spawn()->set_id(++questions_);
  up.mutable_spawn()->set_from(parent);
  up.mutable_spawn()->set_recovery(coordinator_->recovery());
  SpawnApp& app = *up.mutable_spawn()->add_apps();
  app.add_argv("child");
  app.add_argv(std::to_string(lasting_ms));
  app.set_processes(count);
  if (const auto node = where(parent)) send_up(*node, std::move(up));
}

void Cluster::end_spawned(Rank number) { spawned_exit(spawned().at(number), number, 0); }

std::map<Rank, NodeIndex> Cluster::spawned() const {
  std::map<Rank, NodeIndex> out;
  // On a node that is cut off they are parked.
  for (NodeIndex node = 0; node < daemons_.size(); ++node)
    if (daemons_[node]->host && daemons_[node]->alive && !(model_.leases && now_us_ > daemons_[node]->lease_us))
      for (const auto& [number, child] : daemons_[node]->spawned) out[number] = node;
  return out;
}

void Cluster::spawn_begin(NodeIndex node, const SpawnBegin& message) {
  Daemon& daemon = *daemons_[node];
  if (message.recovery() != daemon.recovery) return;
  Up known;
  known.mutable_spawn_known()->set_recovery(message.recovery());
  known.mutable_spawn_known()->set_index(message.index());
  send_up(node, std::move(known));
  for (int rank = 0; rank < message.node_of_rank_size(); ++rank) {
    if (message.node_of_rank(rank) != node) continue;
    const Rank number = message.first() + static_cast<Rank>(rank);
    daemon.spawned[number].lasting_ms = std::stoull(message.apps(0).argv(1));
    Up started, ready;
    started.mutable_rank_started()->set_rank(number);
    started.mutable_rank_started()->set_recovery(daemon.recovery);
    send_up(node, std::move(started));
    ready.mutable_rank_ready()->mutable_address()->set_rank(number);
    ready.mutable_rank_ready()->mutable_address()->add_addresses("10.0.0.1:" + std::to_string(number));
    ready.mutable_rank_ready()->set_recovery(daemon.recovery);
    send_up(node, std::move(ready));
    spawned_run(node, number);
  }
}

void Cluster::spawned_run(NodeIndex node, Rank number) {
  Child& child = daemons_[node]->spawned.at(number);
  child.since = daemons_[node]->recovery;
  later(child.lasting_ms * 1000, [this, node, number, since = child.since] {
    const auto found = daemons_[node]->spawned.find(number);
    if (found != daemons_[node]->spawned.end() && found->second.since == since) spawned_exit(node, number, 0);
  });
}

/** A recovery begins. @return the spawned processes that are to be here, and run already */
std::set<Rank> Cluster::spawned_roll_back(NodeIndex node, const Recover& message) {
  std::set<Rank> there;
  std::map<Rank, Child> left;
  for (const SpawnBegin& space : message.spawned())
    for (int rank = 0; rank < space.node_of_rank_size(); ++rank) {
      const Rank number = space.first() + static_cast<Rank>(rank);
      if (space.node_of_rank(rank) != node) continue;
      if (daemons_[node]->spawned.count(number)) there.insert(number);
      left[number] = {Child::kStands, std::stoull(space.apps(0).argv(1))};
    }
  daemons_[node]->spawned = std::move(left);
  return there;
}

/** What crd's Staying does. Here they answer whether they have crossed the border, or compute. */
void Cluster::stay(NodeIndex node, const Recover& message, const std::vector<Rank>& here) {
  Daemon& daemon = *daemons_[node];
  daemon.cleared = message.recovery();
  for (Rank rank : here) {
    const bool computes = computing_.count(rank);
    later(computes ? 3'000'000 : some_time(), [this, node, rank, computes, wave = message.wave(), recovery = daemon.recovery, instance = daemon.instance] {
      const Daemon& now = *daemons_[node];
      if (!now.host || !now.alive || now.instance != instance || now.recovery != recovery) return;
      Up up;
      up.mutable_restored()->set_recovery(recovery);
      RankRestored& result = *up.mutable_restored()->add_ranks();
      result.set_rank(rank);
      result.set_stays(true);
      if (computes || !now.ranks.count(rank)) result.set_error(computes ? "it has not communicated for 3 s" : "it has ended");
      const auto crossed = crossed_.find(rank);
      if (crossed != crossed_.end() && crossed->second >= wave) result.set_error("messages have crossed");
      if (!result.error().empty()) unable_to_stay_.insert(recovery);
      send_up(node, std::move(up));
    });
  }
}

void Cluster::stayed(NodeIndex node) {
  Daemon& daemon = *daemons_[node];
  if (unable_to_stay_.count(daemon.recovery))
    violations_.push_back("recovery " + std::to_string(daemon.recovery) + " goes on, although a rank cannot stay");
  Up up;
  up.mutable_resumed()->set_recovery(daemon.recovery);
  for (auto& [rank, process] : daemon.ranks) {
    up.mutable_resumed()->add_ranks()->set_rank(rank);
    process.said_in = daemon.recovery;
  }
  // A rank that has ended since it was asked is no loss.
  for (auto& [rank, ended] : daemon.ended) {
    up.mutable_resumed()->add_ranks()->set_rank(rank);
    ended.first.said_in = daemon.recovery;
  }
  send_up(node, std::move(up));
}

void Cluster::spawned_exit(NodeIndex node, Rank number, int status) {
  Daemon& daemon = *daemons_[node];
  if (!daemon.host || !daemon.alive || !daemon.spawned.erase(number)) return;
  for (std::uint32_t stream : {1u, 2u}) {
    Up up;
    up.mutable_output()->set_rank(number);
    up.mutable_output()->set_stream(stream);
    up.mutable_output()->set_end(true);
    up.mutable_output()->set_recovery(daemon.recovery);
    send_up(node, std::move(up));
  }
  Up up;
  up.mutable_rank_exited()->set_rank(number);
  up.mutable_rank_exited()->set_wait_status(status);
  up.mutable_rank_exited()->set_finalized(status == 0);
  up.mutable_rank_exited()->set_recovery(daemon.recovery);
  send_up(node, std::move(up));
}

}  // namespace reprise::job::sim
