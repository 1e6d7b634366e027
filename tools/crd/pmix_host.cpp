// SPDX-License-Identifier: GPL-2.0-only
#include "crd/pmix_host.h"

#include <deque>

#include <asio/post.hpp>

#include "base/unique_fd.h"
#include "crd/environment.h"
#include "crd/framed.h"
#include "crd/process.h"
#include "job/log.h"

namespace reprise::crd {

struct PmixHost::State {
  asio::io_context& loop;
  std::function<void(const FromPmix&)> message;
  std::function<void(const std::string&)> lost;
  std::unique_ptr<Process> process;
  std::unique_ptr<FramedStream> stream;
  std::map<std::uint32_t, std::vector<std::string>> environments;
  std::deque<std::function<void()>> echoes;
  bool ready = false;
};

PmixHost::PmixHost(asio::io_context& loop, const PmixInit& init) : state_(std::make_shared<State>(loop)) {
  auto [ours, its] = socket_pair();
  ProcessSpec spec;
  spec.argv = {"crd", "--pmix-server"};
  spec.program = "/proc/self/exe";
  spec.environment = own_environment();
  // The default store is in shared memory, which would tie ranks to this node.
  set_variable(spec.environment, "PMIX_MCA_gds", "hash");
  set_variable(spec.environment, "HWLOC_PLUGINS_PATH", kNoPlugins);
  // Ends of connections are told at once, rather than those of a second together: pmix_clients.h waits for them.
  set_variable(spec.environment, "PMIX_MCA_pmix_event_caching_window", "0");
  spec.fds = {{0, its.get()}, {1, 2}, {2, 2}};
  const std::weak_ptr<State> weak = state_;
  state_->process = std::make_unique<Process>(loop, spec, nullptr, [weak](int status) {
    const auto state = weak.lock();
    if (!state) return;
    for (auto& then : std::exchange(state->echoes, {})) then();
    if (state->lost) state->lost(fmt::format("it ended with status {:#x}", status));
  });
  state_->stream = std::make_unique<FramedStream>(
      loop, ours.release(),
      [weak](const std::string& bytes) {
        const auto state = weak.lock();
        FromPmix message;
        if (!state || !message.ParseFromString(bytes)) return;
        if (message.has_ready()) {
          state->ready = true;
          for (const auto& rank : message.ready().ranks())
            state->environments[rank.rank()] = {rank.variables().begin(), rank.variables().end()};
        }
        for (const auto& rank : message.known().ranks())
          state->environments[rank.rank()] = {rank.variables().begin(), rank.variables().end()};
        if (message.has_echo()) {
          auto then = std::move(state->echoes.front());
          state->echoes.pop_front();
          return then();
        }
        if (state->message) state->message(message);
      },
      nullptr);
  ToPmix first;
  *first.mutable_init() = init;
  state_->stream->send(first);
}

void PmixHost::start(const PmixStart& start, std::function<void(const FromPmix&)> message,
                     std::function<void(const std::string&)> lost) {
  state_->message = std::move(message);
  state_->lost = std::move(lost);
  ToPmix to;
  *to.mutable_start() = start;
  state_->stream->send(to);
}

PmixHost::~PmixHost() {
  for (auto& then : std::exchange(state_->echoes, {})) asio::post(state_->loop, std::move(then));
  state_->lost = nullptr;
}

void PmixHost::send(const ToPmix& message) { state_->stream->send(message); }
void PmixHost::when_heard(std::function<void()> then) {
  if (!state_->process->running()) return asio::post(state_->loop, std::move(then));
  state_->echoes.push_back(std::move(then));
  ToPmix message;
  message.set_echo(true);
  send(message);
}

bool PmixHost::running() const { return state_->process->running(); }

bool PmixHost::ready() const { return state_->ready; }

const std::vector<std::string>& PmixHost::environment(std::uint32_t rank) const {
  static const std::vector<std::string> none;
  const auto found = state_->environments.find(rank);
  return found == state_->environments.end() ? none : found->second;
}

}  // namespace reprise::crd
