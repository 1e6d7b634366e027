// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The options that say where ranks run, as mpirun has them: --map-by, -N, --bind-to, rankfiles. */
#include <string>
#include <vector>

#include "crrun/options.h"

namespace reprise::job {

/**
 * Set a job's mapping, binding and rankfile; @p settings has its nodes. Options that were not given change nothing.
 * Throws std::runtime_error, which names what is wrong and what there is.
 */
void set_mapping(Settings& settings, const Options& options);

/**
 * Parse a rankfile: lines "rank N=HOST slot=LIST", text after "#" is a comment. HOST may be "+nX", the node number X of @p hosts.
 * @param name for messages
 * @return the lines by rank. Throws std::runtime_error, which names file and line
 */
std::vector<RankSlots> parse_rankfile(const std::string& text, const std::string& name, const std::vector<std::string>& hosts);

/** @return number of ranks if the user gives none: what a rankfile or -N says, else one per slot. 0: not known before the start */
std::uint32_t default_ranks(const Settings& settings, const std::string& hosts);

}  // namespace reprise::job
