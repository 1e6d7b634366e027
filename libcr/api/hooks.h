// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Hooks, and the rules which threads are held until all callbacks have returned. */
#include "api/threads.h"

namespace reprise::api {

enum class Place { signal_context, thread_context, no_callbacks };

/** Run the hook for an outcome. @param result  CR_CONTINUED, …; a negative one runs no hook */
void run_hook(Place place, int result);
/** Run the hook CR_HOOK_PAUSE_PREPARE. */
void run_prepare_hook();

/** Whether a thread without callbacks must be interrupted. @param state  nullptr: it never called cr_init() */
bool hooks_want(const ThreadState* state);
/** Whether the thread waits for all callbacks after @p result. @param state  nullptr: it never called cr_init() */
bool held(const ThreadState* state, int result);

}  // namespace reprise::api
