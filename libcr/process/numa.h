// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file On which NUMA nodes a mapping has its pages, where the program has said so (mbind). */
#include <span>
#include <vector>

#include "image/state.pb.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/lazy_remote.h"

namespace reprise {

/** Save the policies of mappings of @p process that have one. Target frozen; after its mappings were collected. */
void collect_numa(LazyRemote& remote, Process& process);

/** Those of @p vmas that have a policy of their own. */
std::vector<cr_range> with_policy(std::span<const cr_vma> vmas);

/**
 * Give the mappings of @p image, which are in place, their policies, before there are pages to be placed.
 * @param now  what had one before. What the kernel refuses is reported.
 */
void restore_numa(Remote& remote, std::span<const cr_range> now, const Process& image, Report& report);

}  // namespace reprise
