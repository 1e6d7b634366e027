// SPDX-License-Identifier: GPL-2.0-only
#include "crd/node.h"

#include <algorithm>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <system_error>

#include <asio/steady_timer.hpp>
#include <fcntl.h>
#include <sys/wait.h>

#include "crd/environment.h"
#include "crd/lanes.h"
#include "job/endpoints.h"
#include "job/log.h"
#include "job/names.h"
#include "rank_lanes.h"

namespace reprise::crd {

std::uint64_t unix_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000 + static_cast<std::uint64_t>(now.tv_nsec);
}

std::string Node::images() const { return job::local_directory(job.local_directory(), job.id()); }

std::string Node::job_directory() const {
  return job.shared_directory().empty() ? "" : job::job_directory(job.shared_directory(), job.id());
}

std::string Node::host() const {
  for (const job::Node& node : nodes)
    if (node.index() == index) return node.host();
  return "";
}

job::Relaying Node::reachable(std::uint16_t port, const std::string& public_key) const {
  job::Relaying out;
  // crrun passed a loopback address only if all nodes are this host.
  const bool loopback = std::any_of(start.addresses.begin(), start.addresses.end(),
                                    [](const std::string& one) { return one.starts_with("tcp://127."); });
  for (std::string& endpoint : job::own_endpoints(port, start.interfaces, loopback)) out.add_endpoints(std::move(endpoint));
  out.set_public_key(public_key);
  return out;
}

Rank* Node::find(std::uint32_t rank) {
  const auto found = ranks.find(rank);
  return found == ranks.end() ? nullptr : found->second.get();
}

const Spawned* Node::space_of(std::uint32_t number) const {
  const auto after = spawned.upper_bound(number);
  if (own(number) || after == spawned.begin()) return nullptr;
  const Spawned& space = std::prev(after)->second;
  return number - space.message.first() < static_cast<std::uint32_t>(space.message.node_of_rank_size()) ? &space : nullptr;
}

const job::SpawnApp& Spawned::program_of(std::uint32_t number) const {
  std::uint32_t left = number - message.first();
  for (const job::SpawnApp& app : message.apps()) {
    if (left < app.processes()) return app;
    left -= app.processes();
  }
  return job::SpawnApp::default_instance();
}

std::string Spawned::socket_path(const Node& node) const {
  return node.run_directory + "/spawned-" + std::to_string(message.index());
}

std::uint32_t Node::missed_waves(std::uint32_t number) const {
  const Spawned* space = space_of(number);
  return space ? space->message.wave() : launch_wave;
}

ProcessName Node::name_of(std::uint32_t number) const {
  const Spawned* space = space_of(number);
  if (!space) return {job.id(), number};
  return {job::spawned_name(job.id(), space->message.index()), number - space->message.first()};
}

RankSocket* Node::socket_of(std::uint32_t number) const {
  const Spawned* space = space_of(number);
  if (own(number)) return socket.get();
  return space ? space->socket.get() : nullptr;
}

bool Node::hears(std::uint32_t number) const {
  const RankSocket* its = socket_of(number);
  return its && its->connected(number);
}

void Node::tell(std::uint32_t number, const void* message, std::size_t size, int descriptor) const {
  if (RankSocket* its = socket_of(number)) its->send(number, message, size, descriptor);
}

void Node::hang_up(std::uint32_t number) const {
  if (RankSocket* its = socket_of(number)) its->drop(number);
}

void Node::say(job::Log::Level level, const std::string& text, std::int64_t rank) {
  if (level == job::Log::ERROR)
    spdlog::error("{}", text);
  else if (level == job::Log::WARNING)
    spdlog::warn("{}", text);
  else
    spdlog::info("{}", text);
  job::Up up;
  job::Log& log = *up.mutable_log();
  log.set_level(level);
  log.set_text(text);
  log.set_about_rank(rank >= 0);
  if (rank >= 0) log.set_rank(static_cast<std::uint32_t>(rank));
  send_up(up);
}

void Node::give_lanes(std::uint32_t rank) {
  if (!own(rank)) return;  // spawned processes use TCP
  if (lanes_recovery != recovery) {
    lanes_recovery = recovery;
    lanes = {};
    std::vector<std::uint32_t> mine;
    for (const auto& [number, one] : ranks)
      if (own(number)) mine.push_back(number);
    try {
      if (mine.size() > 1 && mine.size() <= CR_LANES_RANKS) lanes = make_lanes(mine);
    } catch (const std::system_error& error) {
      say(job::Log::WARNING, std::string(error.what()) + "; they use TCP");
    }
  }
  if (!lanes) return;
  cr_rank_message message{CR_RANK_LANES, sizeof message, rank, recovery};
  tell(rank, &message, sizeof message, lanes.get());
}

std::vector<std::pair<int, UniqueFd>> Node::open_streams(Rank& rank, const std::map<std::uint32_t, std::uint64_t>& offsets) {
  const auto offset = [&](std::uint32_t stream) { return offsets.count(stream) ? offsets.at(stream) : 0; };
  std::vector<std::pair<int, UniqueFd>> fds;
  const std::string& target = job.stdin_target();
  if (own(rank.number) && (target == "all" || (target.empty() ? 0 : target == std::to_string(rank.number)))) {
    if (!rank.input) rank.input = std::make_unique<Input>(loop);
    fds.emplace_back(0, rank.input->open(offset(0)));
  } else {
    fds.emplace_back(0, UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC)));
  }
  for (std::uint32_t stream = 1; stream <= 2; ++stream) {
    auto& output = rank.outputs[stream - 1];
    if (!output)
      output = std::make_unique<Output>(loop, [this, number = rank.number, stream](std::uint32_t since, std::uint64_t at, const std::string& data, bool end) {
        job::Up up;
        job::Output& message = *up.mutable_output();
        message.set_rank(number);
        message.set_stream(stream);
        message.set_offset(at);
        message.set_data(data);
        message.set_end(end);
        message.set_recovery(since);
        send_up(up);
      });
    fds.emplace_back(static_cast<int>(stream), output->open(recovery, offset(stream)));
  }
  return fds;
}

void Node::rank_ended(Rank& rank, int wait_status) {
  if (rank.exited) return;
  rank.exited = true;
  rank.status = wait_status;
  spdlog::debug("rank {} has ended with status {:#x}", rank.number, wait_status);
  hang_up(rank.number);
  // The PMIx server reports on another path that the rank has finalized. So wait for that path before the end is
  // reported.
  const auto tell = [this, number = rank.number, incarnation = rank.incarnation, wait_status, current = recovery] {
    const Rank* it = find(number);
    if (!it || it->incarnation != incarnation || current != recovery) return;
    job::Up up;
    job::RankExited& message = *up.mutable_rank_exited();
    message.set_rank(number);
    message.set_wait_status(wait_status);
    message.set_finalized(it->finalized);
    message.set_recovery(recovery);
    send_up(up);
  };
  if (PmixHost* const server = pmix.of(side_of(rank.number)))
    server->when_heard(tell);
  else
    tell();
}

std::function<void()> Node::one_dies() {
  ++dying_;
  return [this] {
    if (--dying_) return;
    for (auto& then : std::exchange(awaiting_gone_, {})) asio::post(loop, std::move(then));
  };
}

void Node::when_gone(std::function<void()> then) {
  if (dying_) return awaiting_gone_.push_back(std::move(then));
  asio::post(loop, std::move(then));
}

namespace {

/** Poll until none of these processes exists any more: the process that adopts them reaps them. */
void await_none(asio::io_context& loop, std::vector<pid_t> pids, std::function<void()> then, int tries = 400) {
  std::erase_if(pids, [](pid_t pid) { return ::kill(pid, 0) != 0; });
  if (pids.empty() || tries == 0) return then();
  auto timer = std::make_shared<asio::steady_timer>(loop, std::chrono::milliseconds(5));
  timer->async_wait([&loop, timer, pids, then, tries](const asio::error_code& error) {
    if (!error) await_none(loop, pids, then, tries - 1);
  });
}

}  // namespace

void Node::end_tool(std::unique_ptr<Tool> tool) {
  if (!tool) return;
  std::shared_ptr<Tool> held = std::move(tool);
  const std::vector<pid_t> made = held->kill();
  held->process().on_end([this, held, made, gone = one_dies()] { await_none(loop, made, gone); });
}

void Node::end_rank(Rank& rank, std::function<void()> call) {
  auto then = [call = std::move(call), gone = one_dies()] {
    call();
    gone();
  };
  hang_up(rank.number);
  const bool lives = rank.alive();
  rank.exited = true;  // do not report its end
  std::shared_ptr<Process> process = std::move(rank.process);
  std::shared_ptr<Tool> restarter = std::move(rank.restarter);
  if (lives) signal_group(rank.pid, SIGKILL);
  Process* awaited = process ? process.get() : restarter ? &restarter->process() : nullptr;
  rank.pid = -1;
  if (!awaited) return asio::post(loop, std::move(then));
  if (restarter && !lives) awaited->signal(SIGKILL);
  awaited->on_end([process, restarter, then = std::move(then)] { then(); });
}

}  // namespace reprise::crd
