// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Guard pages: parts of a mapping that must not be touched (MADV_GUARD_INSTALL), as newer C libraries have them below
 * the stacks of threads. They show in no list of mappings.
 */
#include <span>
#include <vector>

#include "image/state.pb.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/** Note where @p process has guard pages. Target frozen; after its mappings were collected. */
void collect_guards(Session& session, Process& process);

/**
 * Have guard pages where @p image has them and nowhere else. Target frozen and committed; mappings and pages in place.
 * Throws Error naming those that cannot be put back.
 */
void restore_guards(Session& session, Remote& remote, const Process& image);

/** What of @p ranges lies outside of @p others; both sorted and without overlaps. Pieces stay within one of @p ranges. */
std::vector<cr_range> without(std::span<const cr_range> ranges, std::span<const cr_range> others);

}  // namespace reprise
