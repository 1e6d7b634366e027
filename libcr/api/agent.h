// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The agent (callback thread): waits in the module for requests and runs the callbacks around them. */

namespace reprise::api {

/** Start the agent of this process unless it runs. Not async-signal-safe. @return 0 or an errno or CR_E* code */
int agent_ensure();

/** @return how often this process was restarted or rolled back, as far as its agent was notified */
unsigned agent_generation();

/**
 * Report to the module that a callback has failed after the outcome, and kill this process (SIGKILL).
 * Async-signal-safe.
 */
[[noreturn]] void agent_give_up();

/** Lock and unlock the start of the agent, around fork(). */
void agent_lock();
void agent_unlock();
/** Reset the agent in the child of a fork(). Call with agent_lock() held. */
void agent_after_fork();

}  // namespace reprise::api
