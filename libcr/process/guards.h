// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Guard pages inside a mapping (MADV_GUARD_INSTALL, Linux 6.13). Newer C libraries install them below thread stacks.
 * The list of mappings does not show them.
 */
#include <span>
#include <vector>

#include "image/state.pb.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/** Save the guard pages in @p process. Target frozen. */
void collect_guards(Session& session, Process& process);

/**
 * Install and remove guard pages so that they are those of @p image. Target frozen and committed; mappings and pages in
 * place. Throws Error naming those that cannot be restored.
 */
void restore_guards(Session& session, Remote& remote, const Process& image);

/**
 * @return the parts of @p ranges that are not in @p others; both must be sorted and without overlaps. Adjacent ranges
 * are not merged
 */
std::vector<cr_range> without(std::span<const cr_range> ranges, std::span<const cr_range> others);

}  // namespace reprise
