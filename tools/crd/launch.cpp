// SPDX-License-Identifier: GPL-2.0-only
#include "crd/launch.h"

#include "crd/commands.h"
#include "crd/environment.h"
#include "crd/pid_bands.h"
#include "job/log.h"
#include "job/names.h"
#include "job/programs.h"

namespace reprise::crd {

bool crowded(const Node& node) { return node.ranks.size() > node.topology.all().count(); }

Variables variables_beside(const Node& node) {
  return variables_beside(node.job, node.nodes, node.placement, command_path("crrun"));
}

std::vector<std::string> environment_of_rank(const Node& node, std::uint32_t number, const Variables& more) {
  const Spawned* const space = node.space_of(number);
  std::vector<std::string> all =
      rank_environment(node.job, node.pmix.environment(number), space ? space->socket_path(node) : job::rank_socket_path(node.run_directory), crowded(node),
                       space ? space->program_of(number) : job::program_of(node.job, number));
  for (const auto& [name, value] : more) set_variable(all, name, value);
  return all;
}

void Launcher::launch(const job::Launch& message) {
  node_.recovery = node_.own_since = std::max(node_.recovery, message.recovery());
  node_.launch_wave = message.wave();
  node_.placement.clear();
  for (const job::Placement& one : message.placement()) node_.placement[one.rank()] = one.node();
  const std::uint32_t recovery = node_.recovery;
  auto old = std::make_shared<std::map<std::uint32_t, std::unique_ptr<Rank>>>(std::move(node_.ranks));
  node_.ranks.clear();
  for (auto& [number, rank] : *old) node_.end_rank(*rank, [] {});
  node_.when_gone([this, recovery, old] {
    if (recovery != node_.recovery) return;
    node_.settled = recovery;
    start_all();
  });
}

void Launcher::start_all() {
  for (const auto& [number, where] : node_.placement) {
    if (where != node_.index) continue;
    auto rank = std::make_unique<Rank>();
    rank->number = number;
    rank->incarnation = node_.recovery;
    node_.ranks[number] = std::move(rank);
  }
  node_.pmix.drop(Side::spawned);
  if (node_.ranks.empty()) return node_.pmix.drop(Side::own);
  node_.pmix.renew(Side::own, node_.placement, [this, recovery = node_.recovery](const std::string& error) {
    if (recovery != node_.recovery) return;
    if (node_.start.node < node_.nodes.size()) keep_to_band(node_.index, static_cast<std::uint32_t>(node_.nodes.size()));
    std::vector<std::uint32_t> numbers;
    for (const auto& [number, rank] : node_.ranks) numbers.push_back(number);
    Binder binder(node_.topology, node_.job, node_.host());
    const Variables beside = variables_beside(node_);
    for (const std::uint32_t number : numbers) {
      if (error.empty())
        start(number, binder, beside);
      else
        start_failed(node_, number, error);
    }
  });
}

void Launcher::start(std::uint32_t number, Binder& binder, const Variables& beside) {
  Rank& rank = *node_.ranks.at(number);
  try {
    rank.binding = binder.bind(number, node_.ranks.size());
  } catch (const std::exception& error) {
    return start_failed(node_, number, error.what());
  }
  if (!rank.binding.why_not.empty()) node_.say(job::Log::INFO, "it is not bound: " + rank.binding.why_not, number);
  const job::SpawnApp program = job::program_of(node_.job, number);
  ProcessSpec spec;
  spec.argv.assign(program.argv().begin(), program.argv().end());
  spec.environment = environment_of_rank(node_, number, beside);
  spec.directory = program.working_directory();
  spec.cpus = rank.binding.cpus;
  start_process(node_, rank, std::move(spec), [this, number](const std::string& error) { start_failed(node_, number, error); });
}

void start_process(Node& node, Rank& rank, ProcessSpec spec, std::function<void(const std::string&)> failed) {
  try {
    spec.own_session = true;
    auto streams = node.open_streams(rank, {});
    for (const auto& [fd, end] : streams) spec.fds.emplace_back(fd, end.get());
    const std::uint32_t recovery = node.recovery, number = rank.number;
    rank.process = std::make_unique<Process>(
        node.loop, spec,
        [&node, number, recovery, failed](const std::string& error) {
          Rank* it = node.find(number);
          if (recovery != node.recovery || !it) return;
          if (!error.empty()) return failed(error);
          it->started = true;
          job::Up up;
          up.mutable_rank_started()->set_rank(number);
          up.mutable_rank_started()->set_pid(it->pid);
          up.mutable_rank_started()->set_recovery(recovery);
          up.mutable_rank_started()->set_bound_to(node.bound_to(*it));
          node.send(std::move(up));
        },
        [&node, number, process = &rank](int status) {
          Rank* it = node.find(number);
          if (it == process && it->started) node.rank_ended(*it, status);
        });
    rank.pid = rank.process->pid();
  } catch (const std::exception& error) {
    failed(error.what());
  }
}

void start_failed(Node& node, std::uint32_t number, const std::string& error) {
  spdlog::error("rank {} is not started: {}", number, error);
  if (Rank* rank = node.find(number)) rank->exited = true;
  job::Up up;
  up.mutable_rank_started()->set_rank(number);
  up.mutable_rank_started()->set_recovery(node.recovery);
  up.mutable_rank_started()->set_error(error);
  node.send(std::move(up));
}

}  // namespace reprise::crd
