// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Critical sections. A thread announces itself in its own word first and looks at
 * the gate then; the agent closes the gate first and looks at the words then: one
 * of the two always sees the other, and a signal handler that enters in between
 * finds itself protected already.
 */
#include "api/futex.h"

namespace reprise::api {

/** Is a request pending or being served? */
bool gate_closed();
void gate_wait_open();

/** For the agent: let nobody in any more; under registry_lock(). */
void gate_close();
/** For the agent: sleep until nobody is inside. */
void gate_wait_empty();
/** For the agent: the request is over. */
void gate_open();

/** Somebody has left while the gate was closed: the agent looks again. */
void gate_left();

/** In the child of a fork: there is no agent any more. */
void gate_after_fork();

}  // namespace reprise::api
