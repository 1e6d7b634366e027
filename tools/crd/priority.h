// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The priority of a daemon: its heartbeats must come in time, however busy the ranks keep the node. */

namespace reprise::crd {

/**
 * Raise the priority of this thread, if that is allowed (root, CAP_SYS_NICE, or RLIMIT_NICE). Threads and processes that
 * it starts later, ranks among them, have normal priority again.
 * @return whether the priority was raised
 */
bool raise_priority();

}  // namespace reprise::crd
