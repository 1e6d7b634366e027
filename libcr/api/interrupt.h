// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Interrupt threads with CR_SIGNUM. In the handler they run their callbacks in
 * signal context, wait for the outcome, and are held until all callbacks have
 * returned.
 */
namespace reprise::api {

/** Install the handler, unless the program has one, and unblock CR_SIGNUM in this thread. @return 0 or an errno */
int interrupt_prepare();

/**
 * For the agent: interrupt all threads that have callbacks or hooks to run or are to be held, and
 * wait until each has called cr_checkpoint(). From here on the agent must not allocate from the
 * heap: a thread may have been interrupted while it holds the allocator's lock.
 * @return 0 or an errno
 */
int interrupt_threads();
/** For the agent: wait until all interrupted threads have run their callbacks, then release the held threads. */
void interrupt_finish();

}  // namespace reprise::api
