// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Snapshots and fork(). */

namespace reprise::api {

/** In the child of a fork(), under channels_lock(): forget all snapshots. They are of the parent's memory. */
void snapshots_after_fork();

}  // namespace reprise::api
