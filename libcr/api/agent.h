// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The callback thread: waits in the module for requests and runs the callbacks around them. */

namespace reprise::api {

/** Start the agent of this process unless it runs. Not from signal handlers. @return 0 or an errno */
int agent_ensure();

/** How often this process has been restarted or rolled back, as far as its agent was told. */
unsigned agent_generation();

/** A callback has failed behind the outcome: tell whoever waits for it, and end this process. For signal handlers, too. */
[[noreturn]] void agent_give_up();

void agent_lock();
void agent_unlock();
/** In the child of a fork, locked. */
void agent_after_fork();

}  // namespace reprise::api
