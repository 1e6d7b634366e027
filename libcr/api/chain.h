// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Callbacks of one thread being run, each nested in the one before: the call of
 * cr_checkpoint() of one runs the next, that of the last one waits for the outcome.
 */
#include "api/threads.h"

namespace reprise::api {

class Chain {
 public:
  /** Where all callbacks of the chain have called cr_checkpoint(): waits, and @return the outcome. */
  using Innermost = int (*)(ThreadState& self, bool refused);

  Chain(ThreadState& self, CallbackList& list, Innermost innermost);
  ~Chain();
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  /** Run them all. @return the outcome */
  int run() { return proceed(CR_CHECKPOINT_READY); }
  /** cr_checkpoint() */
  int proceed(int flags);
  /** cr_replace_self() @return 0 or an errno */
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

/** Callbacks in thread context; they belong to the process. */
extern CallbackList g_thread_callbacks;

}  // namespace reprise::api
