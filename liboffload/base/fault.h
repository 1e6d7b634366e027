// SPDX-License-Identifier: LGPL-2.1-or-later
// For tests (REPRISE_FAULTS): a booster kills itself at a point of its life.
#pragma once

namespace croff {

/**
 * Points: hello, inputs, task, done, outputs, leave, end. CROFF_FAULT is a list "POINT:BOOSTER:N,…": the booster dies when it, or
 * one in its place, comes to the point for the Nth time. The times are counted by files CROFF_FAULT_FILES-….
 */
#ifdef REPRISE_FAULTS
void fault(const char *point);
#else
inline void fault(const char *) {}
#endif

}  // namespace croff
