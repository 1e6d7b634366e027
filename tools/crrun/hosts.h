// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The nodes of a job: --hosts, --hostfile, Slurm's. */
#include <cstdint>
#include <string>
#include <vector>

#include "job/messages.pb.h"

namespace reprise::job {

struct Host {
  std::string name;
  std::uint32_t slots = 0;  ///< 0: not said
};

/** "a:2,b": throws std::runtime_error naming what is wrong. A host that comes again adds to its slots. */
std::vector<Host> parse_hosts(const std::string& list);
/** Open MPI's: a host a line, "slots=N" (also "max-slots=", which is accepted, and "host:N"), "#" comments. */
std::vector<Host> parse_hostfile(const std::string& text, const std::string& name);
/** "2(x3),1" as Slurm writes SLURM_TASKS_PER_NODE. */
std::vector<std::uint32_t> parse_slurm_counts(const std::string& text);
/** Nodes of the Slurm allocation that this process is in; empty outside of one. */
std::vector<Host> slurm_hosts();
/** Whether @p name is this machine. */
bool is_this_host(const std::string& name);

/** Indexed nodes: those with ranks first, then spares. */
std::vector<Node> make_nodes(const std::vector<Host>& hosts, const std::vector<Host>& spares);

}  // namespace reprise::job
