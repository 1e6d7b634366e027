// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The job step in which Slurm runs the daemons. */
#include <string>
#include <vector>

namespace reprise::job {

/**
 * A command that runs a script once on each of these nodes of the allocation, as one step. The step may use all processors and
 * all memory that the allocation has on a node, whatever the user has asked for each task of the job: the daemon is one task,
 * and the ranks are its children. The script finds the user's variables as they are here.
 * @param hosts names of nodes in Slurm; not empty
 * @return words for execvp()
 */
std::vector<std::string> step_command(const std::vector<std::string>& hosts, const std::string& script);

}  // namespace reprise::job
