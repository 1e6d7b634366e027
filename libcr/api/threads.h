// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The threads that called cr_init(), and the rules by which they may be looked at.
 *
 * States are never freed, only used again, so that a signal handler may walk them
 * at any time. They and the lists of callbacks change only under Registry, which lets
 * nobody in while a request is being served: what the agent sees stands still.
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

/** Callbacks of one context in order of registration. Plain memory: read by signal handlers. */
struct CallbackList {
  Callback* items = nullptr;
  unsigned count = 0;
  unsigned capacity = 0;

  /** @return index, or -errno */
  int append(const Callback& callback);
  void clear();
  bool any() const;  ///< is any of them switched on?
};

/** How far an interrupted thread has come in the request being served. */
enum Stage : std::uint32_t {
  kIdle,     ///< not concerned
  kAsked,    ///< the signal is under way
  kRunning,  ///< in its callbacks, before cr_checkpoint()
  kReady,    ///< waits for the outcome
  kThrough,  ///< all its callbacks have returned
};

struct ThreadState {
  ThreadState* next = nullptr;  ///< set once, before it becomes visible
  int id = 0;
  std::atomic<bool> used{false};
  std::atomic<pid_t> tid{0};
  Word cs{0};                 ///< depth of critical sections
  Word stage{kIdle};
  std::atomic<int> hold{CR_HOLD_DFLT};
  CallbackList callbacks;     ///< in signal context
  Chain* chain = nullptr;     ///< callbacks being run; only the thread itself looks
  int persist = 0;
  cr_checkpoint_info checkpoint_info{};
  cr_restart_info restart_info{};
};

/** @return state of the calling thread, nullptr before cr_init(). For signal handlers, too. */
ThreadState* self();
/** Make the calling thread known without starting anything. @return nullptr when out of memory */
ThreadState* adopt_thread();
/** First of the list of all states, used or not; go on by `next`. */
ThreadState* first_thread();

/** Excludes other changes, and waits until no request is being served (see file comment). */
class Registry {
 public:
  explicit Registry(ThreadState* self);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
};

/** Lock without waiting for requests: for the agent, and around fork. */
void registry_lock();
void registry_unlock();

/** In the child of a fork: only the calling thread is left. */
void threads_after_fork();

}  // namespace reprise::api
