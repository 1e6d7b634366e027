// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file --redundancy, --failure-groups, racks of the hostfile: whose images nodes keep for each other. */
#include <cstdint>
#include <string>
#include <vector>

#include "crrun/hosts.h"
#include "job/messages.pb.h"

namespace reprise::job {

/** "partner", "partner:2", "xor:4", "none". Throws std::runtime_error. */
Redundancy parse_redundancy(const std::string& text);
/** Whether these nodes suffice. Throws std::runtime_error, which says what would. */
void check_redundancy(const Redundancy& redundancy, const std::vector<Node>& nodes);
/**
 * Lines "GROUP: NODE NODE…", "#" comments. Lines of one name are one group; each node that no line names is one of its own.
 * @param name of the file, for errors
 * @return the group of each node, by index. Throws std::runtime_error, which names the line
 */
std::vector<std::uint32_t> parse_failure_groups(const std::string& text, const std::string& name, const std::vector<Node>& nodes);
/** @return the group of each node, by index: the racks or switches that @p hosts have; empty: none of the nodes has one */
std::vector<std::uint32_t> failure_groups_of(const std::vector<Host>& hosts, const std::vector<Node>& nodes);

}  // namespace reprise::job
