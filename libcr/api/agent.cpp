// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/agent.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>

#include "api/agent_device.h"
#include "api/chain.h"
#include "api/channel.h"
#include "api/fork.h"
#include "api/forward.h"
#include "api/gate.h"
#include "api/hooks.h"
#include "api/interrupt.h"
#include "base/request_flags.h"
#include "api/serving.h"
#include "api/threads.h"

namespace reprise::api {
namespace {

// Reserves address space, not memory: callbacks of libraries may nest deeply.
constexpr std::size_t kStackSize = 1 << 20;
// A program may close all descriptors, including ours. Limits how often the agent opens the device again.
constexpr int kReopenings = 16;

pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
bool g_running = false;  // under g_mutex
constinit std::atomic<int> g_device{-1};
constinit std::atomic<unsigned> g_generation{0};
char g_destination[PATH_MAX], g_source[PATH_MAX];  // paths of images, for callbacks; only the agent writes them

int outcome_of(std::uint32_t phase, int refusal) {
  switch (phase) {
    case CR_PHASE_CONTINUE: return CR_CONTINUED;
    case CR_PHASE_RESTARTED: return CR_RESTARTED;
    case CR_PHASE_PAUSED: return CR_PAUSED;
    default: return refusal != 0 ? -refusal : -ECANCELED;
  }
}

int ready(cr_agent& agent) {
  int rc;
  while ((rc = device::ready(g_device.load(), agent)) == -EINTR) {}
  return rc;
}

[[noreturn]] void end_process() {
  kill(getpid(), SIGKILL);
  for (;;) ::pause();
}

/** This process was restarted or rolled back: requests that it had made before the checkpoint are void. */
void overtaken(const cr_agent& agent) {
  g_generation.fetch_add(1);
  g_serving.restart_info.requester = agent.requester;
  device::origin(g_device.load(), g_source, sizeof g_source);
  g_serving.restart_info.src = g_source;
  channels_overtaken();
}

int agent_innermost(ThreadState&, bool refused) {
  if (!refused) {
    int none = 0;
    if (const int err = interrupt_threads(); err != 0) g_serving.refusal.compare_exchange_strong(none, err);
    // Save the processes that callbacks of all threads have named in cr_forward_checkpoint().
    if (g_serving.refusal.load() == 0)
      if (const int err = forward_run(); err != 0) g_serving.refusal.compare_exchange_strong(none, err);
  }
  const int refusal = g_serving.refusal.load();
  cr_agent agent{};
  agent.status = refusal;
  const int rc = ready(agent);
  int result = rc == 0 ? outcome_of(agent.phase, refusal) : rc;
  // ready() has reported the failure to the requester. No callback of this process returns.
  if (g_serving.kill.load()) end_process();
  if (result > 0) overtaken(agent);
  g_serving.result.store(result);
  g_serving.decided.store(g_serving.number.load());
  futex_wake(g_serving.decided);
  return result;
}

void describe_request(const cr_agent& agent) {
  cr_checkpoint_info& info = g_serving.checkpoint_info;
  info.signal = request_signal(agent.request_flags);
  g_serving.prohibit_self.store((agent.request_flags & kRequestProhibitSelf) != 0);
  info.scope = static_cast<cr_scope_t>(request_scope(agent.request_flags));
  info.requester = agent.requester;
  const pid_t target = request_target(agent.request_flags);
  info.target = target != 0 ? target : getpid();
  device::origin(g_device.load(), g_destination, sizeof g_destination);
  info.dest = g_destination;
  g_serving.restart_info = {0, ""};
}

void serve_checkpoint(ThreadState& self, const cr_agent& agent) {
  registry_lock();
  gate_close();
  registry_unlock();
  g_serving.state.store(CR_STATE_PENDING);
  bump(g_serving.heard);
  gate_wait_empty();

  g_serving.state.store(CR_STATE_ACTIVE);
  g_serving.number.fetch_add(1);
  g_serving.refusal.store(0);
  g_serving.kill.store(false);
  describe_request(agent);
  forward_begin();
  const bool any = g_thread_callbacks.any();
  int result;
  {
    Chain chain(self, g_thread_callbacks, agent_innermost);
    result = chain.run();
  }
  if (any) run_hook(Place::thread_context, result);
  interrupt_finish();

  g_serving.state.store(CR_STATE_IDLE);
  gate_open();
}

void serve_pause() {
  // The rollback undoes this state, so no other callback runs.
  run_prepare_hook();
  cr_agent agent{};
  ready(agent);
}

/** Open the device again. @return false on failure */
bool reopen() {
  const int fd = device::open();
  if (fd < 0) return false;
  g_device.store(fd);
  return true;
}

void* agent_main(void*) {
  pthread_setname_np(pthread_self(), "cr-agent");
  ThreadState* self = adopt_thread();
  int reopenings = 0;
  while (self != nullptr) {
    cr_agent agent{};
    const int rc = device::wait(g_device.load(), agent);
    if (rc == -EINTR) continue;
    if (rc != 0) {
      const bool closed = rc == -EBADF || rc == -ENOTTY;
      if (closed && ++reopenings <= kReopenings && reopen()) continue;
      break;
    }
    switch (agent.phase) {
      case CR_PHASE_CHECKPOINT: serve_checkpoint(*self, agent); break;
      case CR_PHASE_PAUSE: serve_pause(); break;
      // After a restart or rollback to a checkpoint that was taken without callbacks, the agent waits here.
      case CR_PHASE_RESTARTED:
      case CR_PHASE_PAUSED: overtaken(agent); break;
      default: break;
    }
  }
  agent_lock();
  g_running = false;
  agent_unlock();
  return nullptr;
}

int start() {
  const int fd = device::open();
  if (fd < 0) return -fd;
  g_device.store(fd);

  sigset_t all, old;
  sigfillset(&all);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackSize);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_t thread;
  const int err = pthread_create(&thread, &attributes, agent_main, nullptr);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  pthread_attr_destroy(&attributes);
  if (err != 0) device::close(fd);
  return err;
}

}  // namespace

int agent_ensure() {
  install_fork_handlers();
  agent_lock();
  int err = 0;
  if (!g_running) {
    err = start();
    g_running = err == 0;
  }
  agent_unlock();
  return err;
}

void agent_give_up() {
  device::failed(g_device.load(), CR_EPERMFAIL);
  end_process();
}

unsigned agent_generation() { return g_generation.load(); }

void agent_lock() { pthread_mutex_lock(&g_mutex); }
void agent_unlock() { pthread_mutex_unlock(&g_mutex); }

void agent_after_fork() {
  // The open file description is the parent's session: the child must not keep it open.
  if (g_running) device::close(g_device.exchange(-1));
  g_running = false;
  g_serving.state.store(CR_STATE_IDLE);
}

}  // namespace reprise::api

using namespace reprise::api;

extern "C" {

cr_client_id_t cr_init(void) {
  if (const int err = agent_ensure(); err != 0) {
    errno = err;
    return -1;
  }
  ThreadState* state = adopt_thread();
  if (state == nullptr) {
    errno = ENOMEM;
    return -1;
  }
  return state->id;
}

int cr_inc_persist(void) {
  ThreadState* state = self();
  if (state == nullptr || state->persist == INT_MAX) {
    errno = state == nullptr ? CR_ENOINIT : ERANGE;
    return -1;
  }
  return state->persist++;
}

int cr_dec_persist(void) {
  ThreadState* state = self();
  if (state == nullptr || state->persist == 0) {
    errno = state == nullptr ? CR_ENOINIT : ERANGE;
    return -1;
  }
  return state->persist--;
}

}  // extern "C"
