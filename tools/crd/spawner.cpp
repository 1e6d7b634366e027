// SPDX-License-Identifier: GPL-2.0-only
#include "crd/spawner.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "crd/launch.h"
#include "job/log.h"
#include "job/names.h"

namespace reprise::crd {
namespace {

/** @return by rank, which of the programs it runs */
std::vector<std::uint32_t> app_of_rank(const job::SpawnBegin& message) {
  std::vector<std::uint32_t> all;
  for (int app = 0; app < message.apps_size(); ++app)
    all.insert(all.end(), message.apps(app).processes(), static_cast<std::uint32_t>(app));
  return all;
}

}  // namespace

PmixSpawned pmix_spawned(const Node& node, const job::SpawnBegin& message) {
  PmixSpawned out;
  out.set_nspace(job::spawned_name(node.job.id(), message.index()));
  out.set_first(message.first());
  *out.mutable_node_of_rank() = message.node_of_rank();
  for (const std::uint32_t app : app_of_rank(message)) out.add_app_of_rank(app);
  out.set_parent(message.parent());
  return out;
}

void Spawner::begin(const job::SpawnBegin& message) {
  if (message.recovery() != node_.recovery || node_.spawned.count(message.first())) return;
  bool here = false;
  if (node_.placement.empty())
    for (const job::Placement& one : message.placement()) node_.placement[one.rank()] = one.node();
  for (int rank = 0; rank < message.node_of_rank_size() && !message.begun(); ++rank) {
    if (message.node_of_rank(rank) != node_.index) continue;
    here = true;
    auto process = std::make_unique<Rank>();
    process->number = message.first() + static_cast<std::uint32_t>(rank);
    process->incarnation = node_.recovery;
    node_.ranks[process->number] = std::move(process);
  }
  if (here && !node_.pmix.of(Side::spawned))
    node_.pmix.renew(Side::spawned, node_.placement, [this, message](const std::string& error) {
      if (!error.empty() && message.recovery() == node_.recovery) tell_known(message, error);
    });
  Spawned& space = node_.spawned[message.first()];
  space.message = message;
  space.awaited = 0;
  if (here) listen(space);
  for (const Side side : kSides)
    if (node_.pmix.of(side)) ++space.awaited;
  // A node without processes of the job has no PMIx server, and no client that could ask for the namespace.
  if (!space.awaited) return tell_known(message, "");
  ToPmix to;
  *to.mutable_spawned() = pmix_spawned(node_, message);
  node_.pmix.tell_all(to);
}

void Spawner::listen(Spawned& space) {
  if (space.socket) return;
  space.socket = std::make_unique<RankSocket>(node_.loop, space.socket_path(node_), space.message.first(), said_);
}

void Spawner::only(const job::Recover& message) {
  std::map<std::uint32_t, Spawned> left;
  for (const job::SpawnBegin& one : message.spawned()) {
    Spawned& space = left[one.first()];
    if (auto before = node_.spawned.extract(one.first())) space = std::move(before.mapped());
    space.message = one;
  }
  node_.spawned = std::move(left);
  for (auto& [first, space] : node_.spawned) {
    const auto& nodes = space.message.node_of_rank();
    if (std::find(nodes.begin(), nodes.end(), node_.index) != nodes.end())
      listen(space);
    else
      space.socket.reset();
  }
}

void Spawner::known(const PmixKnown& message) {
  const auto found = node_.spawned.find(message.first());
  if (found == node_.spawned.end() || !found->second.awaited) return;
  Spawned& space = found->second;
  if (!message.error().empty()) {
    space.awaited = 0;
    return tell_known(space.message, message.error());
  }
  if (--space.awaited) return;
  tell_known(space.message, "");
  if (!space.socket || space.message.begun()) return;  // the namespace was ended before it began, or its processes run
  const Variables beside = variables_beside(node_);
  for (int rank = 0; rank < space.message.node_of_rank_size(); ++rank)
    if (space.message.node_of_rank(rank) == node_.index) start(space.message.first() + static_cast<std::uint32_t>(rank), beside);
}

void Spawner::start(std::uint32_t number, const Variables& beside) {
  Rank* rank = node_.find(number);
  const Spawned* space = node_.space_of(number);
  if (!rank || rank->process || !space) return;
  const job::SpawnApp& app = space->program_of(number);
  ProcessSpec spec;
  spec.argv.assign(app.argv().begin(), app.argv().end());
  spec.program = app.program();
  spec.environment = environment_of_rank(node_, number, beside);
  spec.directory = app.working_directory().empty() ? node_.job.working_directory() : app.working_directory();
  start_process(node_, *rank, std::move(spec), [this, number](const std::string& error) { start_failed(node_, number, error); });
}

void Spawner::tell_known(const job::SpawnBegin& message, const std::string& error) {
  job::Up up;
  up.mutable_spawn_known()->set_recovery(message.recovery());
  up.mutable_spawn_known()->set_index(message.index());
  up.mutable_spawn_known()->set_error(error);
  node_.send(std::move(up));
}

void Spawner::end(const job::SpawnEnd& message) {
  if (message.recovery() != node_.recovery) return;
  for (auto& [first, space] : node_.spawned) {
    if (space.message.index() != message.index()) continue;
    space.socket.reset();
    for (int rank = 0; rank < space.message.node_of_rank_size(); ++rank) forget_process(first + static_cast<std::uint32_t>(rank));
  }
}

/** Drop the process only after all of its output has been sent to crrun. */
void Spawner::forget_process(std::uint32_t number) {
  Rank* rank = node_.find(number);
  if (!rank) return;
  if (rank->alive()) return signal_group(rank->pid, SIGKILL);
  auto left = std::make_shared<int>(2);
  for (auto& output : rank->outputs)
    if (output)
      output->when_sent(UINT64_MAX, [this, number, left, recovery = node_.recovery] {
        if (--*left == 0 && recovery == node_.recovery) node_.ranks.erase(number);
      });
}

}  // namespace reprise::crd
