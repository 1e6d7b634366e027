// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The nodes of a job: from --hosts, --hostfile or Slurm. */
#include <cstdint>
#include <string>
#include <vector>

#include "job/messages.pb.h"

namespace reprise::job {

struct Host {
  std::string name;
  std::uint32_t slots = 0;  ///< 0: not given
  std::string group = {};   ///< its rack or switch; "": not given
};

/** "a:2,b": a repeated host adds to its slots. Throws std::runtime_error, which names the error. */
std::vector<Host> parse_hosts(const std::string& list);
/**
 * Open MPI's format: one host per line, "slots=N", "host:N", "#" comments; "max-slots=" is accepted and ignored. Besides "rack=NAME" or
 * "switch=NAME", for parse_failure_groups().
 */
std::vector<Host> parse_hostfile(const std::string& text, const std::string& name);
/** Parse SLURM_TASKS_PER_NODE, for instance "2(x3),1". */
std::vector<std::uint32_t> parse_slurm_counts(const std::string& text);
/** @return nodes of the Slurm allocation in which this process runs; empty outside of one */
std::vector<Host> slurm_hosts();
/** @return the names that a list in Slurm's form stands for, such as "node[1-3,7]"; empty if Slurm cannot tell */
std::vector<std::string> slurm_names(const std::string& list);
/** Whether @p name is this machine. */
bool is_this_host(const std::string& name);

/** @return the nodes with their indices: those with ranks first, then spares */
std::vector<Node> make_nodes(const std::vector<Host>& hosts, const std::vector<Host>& spares);

}  // namespace reprise::job
