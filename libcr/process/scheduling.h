// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Policy, priority, nice value and CPUs of a thread: asked for and set from outside. */
#include "image/state.pb.h"
#include "restore/report.h"

namespace reprise {

/** Save what belongs to the thread with the tid of @p thread. */
void collect_scheduling(Thread& thread);
/** Bring back what differs; what may not be set becomes a warning. */
void restore_scheduling(const Thread& thread, Report& report);

}  // namespace reprise
