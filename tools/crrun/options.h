// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file crrun's command line. */
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "crrun/coordinator/types.h"

namespace reprise::job {

/** A program behind ":" on the command line, and the options that each has for itself. */
struct ProgramOptions {
  std::uint32_t ranks = 0;
  std::vector<std::string> hosts, exported, program;
  std::string wdir;
};

struct Options {
  std::uint32_t ranks = 0;
  std::vector<std::string> hosts, spares;
  std::string hostfile;
  std::vector<std::string> exported;
  std::vector<std::pair<std::string, std::string>> mca;
  std::string wdir, standard_input = "0", bind_to, map_by, rankfile;
  std::uint32_t per_node = 0;
  bool report_bindings = false;
  bool tag_output = false, oversubscribe = false, no_double_up = false, keep = false, require_checkpoints = false;
  bool verbose = false, quiet = false;
  std::string checkpoint_every, incremental, node_mtbf, checkpoint_share, checkpoint_on, rollback_on, time_left, hang_after, on_hang, detect = "10s", detect_at_least, timeout, quiesce_timeout = "30s", recover_timeout = "10min";
  std::string recover = "all", with_ft;
  std::string local, shared, redundancy, failure_groups, stage_rate, local_limit, abandon;
  std::vector<std::string> interfaces;
  unsigned staging_nodes = 2, max_restarts = 3;
  unsigned fan_out = 0;  ///< 0: not given
  std::string launch_agent = "crd", launcher = "auto", report_file, metrics_file, restart, restart_or_run, attach;
  std::vector<std::string> program;
  std::vector<ProgramOptions> more;  ///< programs behind the first
};

/** Declare all options. */
void add_options(CLI::App& app, Options& options);
/**
 * Split the words before the program's name from the rest, which goes to @p program. mpirun's long options with one dash
 * ("-np") get two.
 */
std::vector<std::string> split_command_line(const CLI::App& app, int argc, char** argv,
                                            std::vector<std::string>& program);
/**
 * Divide the words of options.program at ":" into several programs, as mpirun does. Throws std::runtime_error, which names
 * options that a program cannot have for itself.
 */
void split_programs(Options& options);
/** "250ms", "60s", "5min", "1h", "3" (seconds). Throws std::runtime_error. */
std::uint64_t milliseconds(const std::string& text, const std::string& option);
/** "100M", "2G", "4096". Throws std::runtime_error. */
std::uint64_t byte_count(const std::string& text, const std::string& option);
/** Settings of a new job. Throws std::runtime_error, which names what cannot work and what to do. */
Settings make_settings(const Options& options, const std::string& id);
/** Apply the options that may be changed with --restart. */
void change_settings(Settings& settings, const Options& options);
/** @return the nodes from the options, else from Slurm, else this host */
std::vector<Node> nodes_of(const Options& options);

}  // namespace reprise::job
