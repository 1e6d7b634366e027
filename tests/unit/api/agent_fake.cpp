// SPDX-License-Identifier: GPL-2.0-only
#include "agent_fake.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <thread>

#include "api/agent_device.h"

namespace fake {
namespace {

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  bool notified = false, waiting = false, is_ready = false, decided = false;
  cr_agent request{};
  int status = 0, failure = 0;
  std::uint32_t phase = 0;
};

int g_open_error = 0, g_busy = 0;
const char* g_origin = "";

/** Never destroyed, because the agent outlives main(). A forked child gets its own when it opens the device. */
State*& current() {
  static auto* one = new State;
  return one;
}
State& state() { return *current(); }

template <class Condition>
bool within(int ms, Condition condition) {
  std::unique_lock lock(state().mutex);
  return state().changed.wait_for(lock, std::chrono::milliseconds(ms), condition);
}

}  // namespace

void set_open_error(int err) { g_open_error = err; }
void set_busy(int err) { g_busy = err; }
void set_origin(const char* path) { g_origin = path; }

int failure(int ms) {
  within(ms, [] { return state().failure != 0; });
  return state().failure;
}

void notify(std::uint32_t phase, std::uint32_t flags, int requester) {
  const std::lock_guard lock(state().mutex);
  state().request = {};
  state().request.phase = phase;
  state().request.request_flags = flags;
  state().request.requester = requester;
  state().notified = true;
  state().changed.notify_all();
}

std::optional<int> ready(int ms) {
  if (!within(ms, [] { return state().is_ready; })) return {};
  return state().status;
}

void outcome(std::uint32_t phase, bool wait) {
  {
    const std::lock_guard lock(state().mutex);
    state().phase = phase;
    state().decided = true;
    state().changed.notify_all();
  }
  if (wait) idle();
}

bool idle(int ms) {
  return within(ms, [] { return state().waiting && !state().notified; });
}

int serve(std::uint32_t phase_after, std::uint32_t flags, int requester) {
  int status = -1;
  std::thread session([&] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);  // no handlers here: a session is not part of its target
    notify(CR_PHASE_CHECKPOINT, flags, requester);
    status = ready().value_or(-1);
    outcome(status == 0 ? phase_after : static_cast<std::uint32_t>(CR_PHASE_ABORTED));
  });
  session.join();
  return status;
}

}  // namespace fake

namespace reprise::api::device {

int open() {
  if (fake::g_open_error != 0) return -fake::g_open_error;
  // A forked child inherits locks that threads it does not have may hold: give it a new state.
  static pid_t owner = ::getpid();
  if (owner != ::getpid()) fake::current() = new fake::State;
  owner = ::getpid();
  return ::open("/dev/null", O_RDWR | O_CLOEXEC);
}

void close(int fd) { ::close(fd); }

bool present() { return fake::g_open_error == 0; }

int wait(int, cr_agent& agent) {
  auto& state = fake::state();
  std::unique_lock lock(state.mutex);
  state.waiting = true;
  state.changed.notify_all();
  state.changed.wait(lock, [&] { return state.notified; });
  state.notified = state.waiting = false;
  agent = state.request;
  return 0;
}

int ready(int, cr_agent& agent) {
  auto& state = fake::state();
  std::unique_lock lock(state.mutex);
  state.status = agent.status;
  state.is_ready = true;
  state.changed.notify_all();
  state.changed.wait(lock, [&] { return state.decided; });
  state.is_ready = state.decided = false;
  agent.phase = state.phase;
  agent.requester = state.request.requester;
  return 0;
}

void failed(int, int code) {
  auto& state = fake::state();
  const std::lock_guard lock(state.mutex);
  state.failure = code;
  state.changed.notify_all();
}

void origin(int, char* path, unsigned size) { std::snprintf(path, size, "%s", fake::g_origin); }

int ask(int) { return fake::g_busy; }

}  // namespace reprise::api::device
