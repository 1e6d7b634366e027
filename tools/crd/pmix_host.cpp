// SPDX-License-Identifier: GPL-2.0-only
#include "crd/pmix_host.h"

#include <cerrno>
#include <cstring>
#include <deque>
#include <system_error>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor_passing.h"
#include "crd/environment.h"
#include "crd/framed.h"
#include "crd/process.h"
#include "job/log.h"

namespace reprise::crd {
namespace {

std::pair<UniqueFd, UniqueFd> socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::system_error(errno, std::generic_category(), "no sockets to a helper process");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/** A process that connects to the PMIx server as a rank. */
struct Donor {
  Donor(asio::io_context& loop, int fd) : socket(loop, fd), timer(loop) {}
  asio::posix::stream_descriptor socket;
  asio::steady_timer timer;
  std::unique_ptr<Process> process;
  std::function<void(UniqueFd, const std::string&)> done;

  void end(UniqueFd fd, const std::string& error) {
    timer.cancel();
    asio::error_code ignored;
    socket.close(ignored);
    auto call = std::exchange(done, nullptr);
    if (!call) return;
    // The donor reads from the connection as long as it lives: pass the connection on only after the donor has ended.
    auto held = std::make_shared<UniqueFd>(std::move(fd));
    process->signal(SIGKILL);
    process->on_end([call, held, error] { call(std::move(*held), error); });
  }
};

}  // namespace

struct PmixHost::State {
  asio::io_context& loop;
  std::function<void(const FromPmix&)> message;
  std::function<void(const std::string&)> lost;
  std::unique_ptr<Process> process;
  std::unique_ptr<FramedStream> stream;
  std::map<std::uint32_t, std::vector<std::string>> environments;
  std::vector<std::shared_ptr<Donor>> donors;
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
  for (auto& donor : state_->donors) {
    donor->done = nullptr;
    donor->process.reset();
    asio::error_code ignored;
    donor->socket.close(ignored);
    donor->timer.cancel();
  }
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

void PmixHost::donate(std::uint32_t rank, const std::vector<std::string>& environment,
                      std::function<void(UniqueFd, const std::string&)> done) {
  auto [ours, its] = socket_pair();
  auto donor = std::make_shared<Donor>(state_->loop, ours.release());
  donor->done = std::move(done);
  ProcessSpec spec;
  spec.argv = {"crd", "--donor"};
  spec.program = "/proc/self/exe";
  spec.environment = environment;
  // The donor's view of the hardware does not matter, and hwloc's detection would take longer than the rest of its work.
  set_variable(spec.environment, "HWLOC_SYNTHETIC", "pu:1");
  spec.fds = {{0, its.get()}, {1, 2}, {2, 2}};
  donor->process = std::make_unique<Process>(state_->loop, spec, nullptr, [donor, rank](int) {
    donor->end({}, fmt::format("the donor of rank {}'s PMIx connection has ended", rank));
  });
  donor->socket.async_wait(asio::posix::stream_descriptor::wait_read, [donor](const asio::error_code& error) {
    if (error) return;
    UniqueFd fd = receive_descriptor(donor->socket.native_handle());
    const std::string why = fd ? "" : std::string("the donor sent no connection: ") + std::strerror(errno);
    donor->end(std::move(fd), why);
  });
  donor->timer.expires_after(std::chrono::seconds(20));
  donor->timer.async_wait([donor, rank](const asio::error_code& error) {
    if (!error) donor->end({}, fmt::format("the PMIx server did not accept a connection for rank {} in 20 s", rank));
  });
  state_->donors.push_back(std::move(donor));
}

}  // namespace reprise::crd
