// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * One run of a thread's callbacks. They nest: cr_checkpoint() in one callback runs
 * the next one, and in the last one it waits for the outcome.
 */
#include "api/threads.h"

namespace reprise::api {

class Chain {
 public:
  /** Called when all callbacks of the chain have called cr_checkpoint(). Waits for the outcome. @return the outcome */
  using Innermost = int (*)(ThreadState& self, bool refused);

  Chain(ThreadState& self, CallbackList& list, Innermost innermost);
  ~Chain();
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  /** Run all callbacks. @return the outcome: CR_CONTINUED, CR_RESTARTED, CR_PAUSED or a negative code */
  int run() { return proceed(CR_CHECKPOINT_READY); }
  /** Implements cr_checkpoint(). */
  int proceed(int flags);
  /** Implements cr_replace_self(). @return 0 or an errno */
  int replace_current(const Callback& callback, int flags);

 private:
  ThreadState& self_;
  CallbackList& list_;
  Innermost innermost_;
  int context_;
  unsigned next_;      // callbacks below this have not been called yet
  unsigned current_ = ~0U;
  bool decided_ = false;
  int result_ = 0;
};

/** Callbacks in thread context. They belong to the process, not to a thread. */
extern CallbackList g_thread_callbacks;

}  // namespace reprise::api
