// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The parameters that crrun passes to a daemon at its start: one line of JSON on the daemon's standard input. */
#include <cstdint>
#include <string>
#include <vector>

#include "job/keys.h"

namespace reprise::job {

/** Passed on standard input: every user of the node could read command-line arguments. */
struct DaemonStart {
  std::string job;                     ///< id
  std::uint32_t node = 0;              ///< index of the node in the job
  std::vector<std::string> addresses;  ///< of crrun, in the order to try: "tcp://10.0.0.1:5555", "tcp://[fe80::1%eth0]:5555"
  std::string boot;                    ///< boot_id() of crrun's host
  std::string server_public_key;       ///< of crrun
  KeyPair client;                      ///< shared by all daemons of the job
  std::string log_level = "warning";
  std::string run_directory;           ///< see run_directory() in names.h; another one for each daemon on one host
  bool relays = false;                 ///< the daemon listens for daemons below it in the tree
  std::vector<std::string> interfaces; ///< the daemon announces its addresses on these interfaces only; empty: on all
  std::vector<std::string> parent_addresses;  ///< tried before crrun's; empty: the daemon has no parent
  std::string parent_public_key;
};

/** @return one line, without the newline */
std::string daemon_start_line(const DaemonStart& start);
/**
 * The same line for daemons that srun starts together, as all tasks of an srun have one standard input. @p starts differ in
 * node, relays and parent only. @param hosts their nodes' names in Slurm @return one line, without the newline
 */
std::string daemon_start_line(const std::vector<DaemonStart>& starts, const std::vector<std::string>& hosts);
/**
 * @param host name of this node in Slurm: chooses among daemons that were started together
 * Throws std::runtime_error, which names the missing or wrong part.
 */
DaemonStart parse_daemon_start(const std::string& line, const std::string& host = "");

}  // namespace reprise::job
