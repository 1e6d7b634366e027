// SPDX-License-Identifier: LGPL-2.1-or-later
// Where the inputs of tasks come from, and where their outputs go.
//
// The program's memory keeps what is needed to execute a domain again until the domain is cleared. So no copies are made before
// a task starts. An output goes straight to the program's memory if nothing in its domain uses that memory; otherwise it goes
// through a buffer, and the members of the domain that come later get it from there.
#pragma once

#include <span>

#include "task.h"

namespace croff {

/** Earlier members of the task's domain that are not cleared, in the order of their submission. */
using Peers = std::vector<const Task *>;

/** May copy inputs to buffers of the task. */
std::vector<Input> inputs_of(Task &task, const Peers &earlier);

/** May make buffers of the task. @param[out] staged bytes of the buffers */
std::vector<Target> targets_of(Task &task, const Peers &earlier, std::size_t &staged);

/** The task is cleared. */
void put_in_place(Task &task);

}  // namespace croff
