// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/threads.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#include "api/fork.h"
#include "api/gate.h"

namespace reprise::api {
namespace {

// initial-exec: accesses in signal handlers must not allocate memory.
__attribute__((tls_model("initial-exec"))) thread_local ThreadState* t_self = nullptr;

constinit std::atomic<ThreadState*> g_threads{nullptr};
pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_once_t g_key_once = PTHREAD_ONCE_INIT;
pthread_key_t g_key;

void release(ThreadState& state) {
  Registry lock(&state);
  state.cs.store(0);
  state.callbacks.clear();
  state.hold.store(CR_HOLD_DFLT);
  state.persist = 0;
  state.used.store(false);
  t_self = nullptr;
  gate_left();
}

/** Destructor of the key, at the exit of a thread. */
void at_thread_exit(void* arg) {
  auto* state = static_cast<ThreadState*>(arg);
  // Other destructors may still need the state. With the value set again, the C library calls this one again.
  if (state->persist > 0 && pthread_setspecific(g_key, state) == 0) return;
  release(*state);
}

void make_key() { pthread_key_create(&g_key, at_thread_exit); }

ThreadState* find_unused() {
  for (ThreadState* state = first_thread(); state != nullptr; state = state->next)
    if (!state->used.load()) return state;
  return nullptr;
}

}  // namespace

int CallbackList::append(const Callback& callback) {
  if (count >= CR_MAX_CALLBACKS) return -ENOSPC;
  if (count == capacity) {
    const unsigned wanted = capacity == 0 ? 8 : capacity * 2;
    auto* grown = static_cast<Callback*>(std::realloc(items, wanted * sizeof(Callback)));
    if (grown == nullptr) return -ENOMEM;
    items = grown;
    capacity = wanted;
  }
  items[count] = callback;
  return static_cast<int>(count++);
}

void CallbackList::clear() {
  std::free(items);
  items = nullptr;
  count = capacity = 0;
}

bool CallbackList::any() const {
  for (unsigned i = 0; i < count; ++i)
    if (items[i].func != nullptr) return true;
  return false;
}

ThreadState* self() { return t_self; }

ThreadState* first_thread() { return g_threads.load(); }

ThreadState* adopt_thread() {
  if (t_self != nullptr) return t_self;
  pthread_once(&g_key_once, make_key);
  install_fork_handlers();
  Registry lock(nullptr);
  ThreadState* state = find_unused();
  const bool fresh = state == nullptr;
  if (fresh) {
    state = new (std::nothrow) ThreadState;
    if (state == nullptr) return nullptr;
    state->next = first_thread();
    state->id = state->next == nullptr ? 1 : state->next->id + 1;
  }
  if (pthread_setspecific(g_key, state) != 0) {
    if (fresh) delete state;
    return nullptr;
  }
  state->tid.store(static_cast<pid_t>(syscall(SYS_gettid)));
  state->stage.store(kIdle);
  state->chain = nullptr;
  state->used.store(true);
  if (fresh) g_threads.store(state);
  t_self = state;
  return state;
}

void registry_lock() { pthread_mutex_lock(&g_mutex); }
void registry_unlock() { pthread_mutex_unlock(&g_mutex); }

Registry::Registry(ThreadState* self) {
  // The agent waits for a thread that is in a critical section or a callback. Such a thread must not
  // wait for the agent.
  const auto exempt = [self] { return self != nullptr && (self->cs.load() > 0 || self->chain != nullptr); };
  for (;;) {
    if (!exempt()) gate_wait_open();
    registry_lock();
    if (exempt() || !gate_closed()) return;
    registry_unlock();
  }
}

Registry::~Registry() { registry_unlock(); }

void threads_after_fork() {
  for (ThreadState* state = first_thread(); state != nullptr; state = state->next) {
    state->stage.store(kIdle);
    if (state == t_self) {
      state->tid.store(static_cast<pid_t>(syscall(SYS_gettid)));
      continue;
    }
    state->cs.store(0);
    state->callbacks.clear();
    state->used.store(false);
  }
}

}  // namespace reprise::api
