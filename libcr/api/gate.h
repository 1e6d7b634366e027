// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Critical sections. A thread first increments its own word, then reads the gate.
 * The agent first closes the gate, then reads the words. So at least one of the two
 * sees the other, and a signal handler that enters a section between the two steps
 * of its thread is already protected.
 */
#include "api/futex.h"

namespace reprise::api {

/** Whether a request is pending or being served. */
bool gate_closed();
/** Sleep until the gate is open. */
void gate_wait_open();

/** For the agent: admit no thread to a section any more. Call with registry_lock() held. */
void gate_close();
/** For the agent: sleep until no thread is in a section. */
void gate_wait_empty();
/** For the agent, when the request is over: open the gate and wake all waiting threads. */
void gate_open();

/** Call after a thread has left its section: if the gate is closed, the agent checks again. */
void gate_left();

/** In the child of a fork(), which has no agent: open the gate. */
void gate_after_fork();

}  // namespace reprise::api
