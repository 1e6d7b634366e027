// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Scheduling policy, priority, nice value and CPU affinity of a thread, read and set by its tid. */
#include "image/state.pb.h"
#include "restore/report.h"
#include "session/remote.h"

namespace reprise {

/** Save the scheduling attributes of the thread with @p thread's tid. */
void collect_scheduling(Thread& thread);
/**
 * Restore what differs; warn about what cannot be set.
 * @param by_itself  the thread makes the calls, so that its own rights count; nullptr: we make them, with ours
 */
void restore_scheduling(const Thread& thread, Remote* by_itself, Report& report);

}  // namespace reprise
