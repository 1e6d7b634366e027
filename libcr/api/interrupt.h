// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Threads that are interrupted by CR_SIGNUM: they run their callbacks in signal
 * context, wait there for the outcome, and are held until the others are through.
 */
namespace reprise::api {

/** Install the handler, unless the program has one, and let the calling thread take the signal. @return 0 or an errno */
int interrupt_prepare();

/**
 * For the agent: interrupt all threads that have something to do, and wait until each has
 * called cr_checkpoint(). The agent must not allocate from here on: a thread may have
 * been interrupted with the allocator's lock. @return 0 or an errno
 */
int interrupt_threads();
/** For the agent: wait until all interrupted threads have run their callbacks, then let go of those held. */
void interrupt_finish();

}  // namespace reprise::api
