// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Hooks, and which threads are held until all callbacks are through. */
#include "api/threads.h"

namespace reprise::api {

enum class Place { signal_context, thread_context, no_callbacks };

/** Run the hook for an outcome (CR_CONTINUED, …; nothing for failures). */
void run_hook(Place place, int result);
void run_prepare_hook();

/** Must a thread without callbacks be interrupted? @param state nullptr: it never called cr_init() */
bool hooks_want(const ThreadState* state);
/** Does the thread wait for the others after @p result? */
bool held(const ThreadState* state, int result);

}  // namespace reprise::api
