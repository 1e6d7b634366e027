// SPDX-License-Identifier: LGPL-2.1-or-later
// The image of this process that a rollback restores: when it may be taken, and whether it was gone back to.
#pragma once

#include <cstdint>

namespace croff::image {

/** Register with libcr. @return false: no checkpoints can be taken here */
bool watch();

/** A booster may be saved until forbid(). Wait until that has happened, or this process was rolled back to it. Not longer than
 *  some seconds: without an image the group begins anew after a loss. */
void await();
/** No checkpoint is taken from now on: what was saved has nothing of a task. */
void forbid();

/** How often this process was rolled back or restarted. Compare with an earlier value that was rolled back, too. */
std::uint64_t rollbacks();
/** Whether the last time it became a new process. */
bool was_restarted();

}  // namespace croff::image
