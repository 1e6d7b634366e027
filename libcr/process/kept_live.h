// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Kept memory of a live process that is rolled back. */
#include <span>

#include "image/state.pb.h"
#include "session/session.h"

namespace reprise {

/**
 * Find the kept memory of @p image in the target by its name where it is another memfd now: the process was restarted since
 * the image was taken, or has freed the memory and allocated it again. The image then gets its inode, so that the rollback
 * leaves its content as it is. Target frozen, with the mappings @p now, not committed.
 * Throws Error (refused) if memory of that name has another size.
 */
void adopt_kept_memory(Session& session, std::span<const cr_vma> now, Process& image);

}  // namespace reprise
