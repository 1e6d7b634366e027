// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file NUMA memory policies of mappings (mbind(2)). */
#include <span>
#include <vector>

#include "image/state.pb.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/lazy_remote.h"

namespace reprise {

/** Save the policies of the mappings that have one. Target frozen. Call it after collect_mappings(). */
void collect_numa(LazyRemote& remote, Process& process);

/** @return the ranges of @p vmas that have a policy of their own */
std::vector<cr_range> with_policy(std::span<const cr_vma> vmas);

/**
 * Restore the policies of the mappings of @p image, which must be in place. Call it before the pages are restored, so
 * that these are allocated on the right nodes. Warns about policies that the kernel refuses.
 * @param now  ranges that had a policy before; reset to the default where the image has none
 */
void restore_numa(Remote& remote, std::span<const cr_range> now, const Process& image, Report& report);

}  // namespace reprise
