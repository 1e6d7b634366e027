// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The states of threads that called cr_init(), and the rules for access to them.
 *
 * States are never freed, only reused, so that a signal handler may walk the list at
 * any time. States and lists of callbacks change only under Registry, which blocks
 * while a request is being served: they do not change while the agent uses them.
 */
#include <sys/types.h>

#include <atomic>

#include "api/futex.h"
#include "libcr.h"

namespace reprise::api {

class Chain;

struct Callback {
  cr_callback_t func = nullptr;
  void* arg = nullptr;
};

/** Callbacks of one context in order of registration. A plain array, because signal handlers read it. */
struct CallbackList {
  Callback* items = nullptr;
  unsigned count = 0;
  unsigned capacity = 0;

  /** @return index, or -errno */
  int append(const Callback& callback);
  void clear();
  bool any() const;  ///< whether any callback is not NULL
};

/** Stages of an interrupted thread in the request being served. */
enum Stage : std::uint32_t {
  kIdle,     ///< not interrupted
  kAsked,    ///< the signal was sent
  kRunning,  ///< in its callbacks, before cr_checkpoint()
  kReady,    ///< waits for the outcome
  kThrough,  ///< all its callbacks have returned
};

struct ThreadState {
  ThreadState* next = nullptr;  ///< set once, before the state is in the list
  int id = 0;
  std::atomic<bool> used{false};
  std::atomic<pid_t> tid{0};
  Word cs{0};                 ///< depth of critical sections
  Word stage{kIdle};
  std::atomic<int> hold{CR_HOLD_DFLT};
  CallbackList callbacks;     ///< in signal context
  Chain* chain = nullptr;     ///< the running callbacks; only the thread itself reads it
  int persist = 0;
  cr_checkpoint_info checkpoint_info{};
  cr_restart_info restart_info{};
};

/** @return state of the calling thread, nullptr before cr_init(). Async-signal-safe. */
ThreadState* self();
/** Add the calling thread to the list, without starting the agent. @return its state, nullptr when out of memory */
ThreadState* adopt_thread();
/** First element of the list of all states, used or not, linked by `next`. */
ThreadState* first_thread();

/**
 * Exclusive lock for changes; the constructor waits until no request is being served (see file comment).
 * A thread in a critical section or callback does not wait for requests.
 */
class Registry {
 public:
  explicit Registry(ThreadState* self);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
};

/** The same lock without waiting for requests: for the agent, and around fork(). */
void registry_lock();
void registry_unlock();

/** In the child of a fork(): release the states of all threads but the calling one. */
void threads_after_fork();

}  // namespace reprise::api
