// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file What a rank needs to start another job on the nodes of its own one. A job that is started so is a recovery domain of its
 * own: its ranks go back together, and nobody else.
 */
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "job/messages.pb.h"

namespace reprise::crd {

/** Names and values of the environment. */
using Variables = std::vector<std::pair<std::string, std::string>>;

/**
 * Variables for a rank: REPRISE_CRRUN has the words of a command, one a line, to which the number of ranks and the program
 * are added; REPRISE_HOSTS the nodes with free slots ("node2:2,node3:1"; all nodes if no slot is free), for --hosts.
 * @param placement node of each of the job's ranks @param crrun path of the program
 */
Variables variables_beside(const job::JobSpec& job, const std::vector<job::Node>& nodes,
                           const std::map<std::uint32_t, std::uint32_t>& placement, const std::string& crrun);

}  // namespace reprise::crd
