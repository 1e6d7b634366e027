// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Types that all parts of the coordinator use. None of the parts does I/O, reads a clock or starts a thread. */
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "job/messages.pb.h"

namespace reprise::job {

using Rank = std::uint32_t;
using NodeIndex = std::uint32_t;
using WaveNumber = std::uint32_t;
using RecoveryNumber = std::uint32_t;

/** The time of an input, passed in by the caller: for deadlines, and for display. */
struct Now {
  std::uint64_t ms = 0;       ///< monotonic
  std::uint64_t unix_ns = 0;  ///< time of day
};

/** Node of every rank, by rank. */
using PlacementTable = std::vector<NodeIndex>;

/** Up to this number of ranks, tables of all ranks are sent whole; above it, only changes are sent. */
inline constexpr std::size_t kWholeTables = 1024;

/** Exit code when the job could not continue but --restart can restart it. */
inline constexpr int kRestartable = 75;

/** The user's choices, and values derived from them. */
struct Settings {
  JobSpec spec;
  std::vector<Node> nodes;
  std::string job_directory;                   ///< JOBDIR; for messages and paths of staged images
  std::uint64_t wave_interval_ms = 0;          ///< 0: only on request, and after recoveries unless wave_at_start
  bool wave_interval_auto = false;             ///< crrun chooses it, see interval.h
  bool wave_at_start = false;                  ///< one wave when all ranks have called MPI_Init; further ones on request only
  std::uint64_t node_mtbf_ms = 0;              ///< mean time between failures of a node; 0: learned
  double wave_share = 0.05;                    ///< of the run time that waves may cost when crrun chooses the interval
  std::uint64_t hang_after_ms = 0;             ///< time without progress of any rank that is a hang; 0: nobody watches
  bool hang_recover = false;                   ///< a job that hangs goes back to a wave; else the user is told
  std::uint64_t lost_after_ms = 3000;          ///< longest silence after which a node counts as lost
  std::uint64_t shortest_silence_ms = 0;       ///< shortest one; 0: five heartbeats
  std::uint64_t start_timeout_ms = 60'000;     ///< for a daemon to send Hello
  std::uint64_t quiesce_timeout_ms = 30'000;   ///< sent to daemons in WaveBegin
  std::uint64_t wave_timeout_ms = 600'000;     ///< for a whole wave
  std::uint64_t recover_timeout_ms = 600'000;  ///< for each of the two steps of a recovery
  std::uint64_t run_timeout_ms = 0;            ///< 0: no limit
  std::uint64_t rejoin_every_ms = 10'000;      ///< interval of attempts to start a daemon on a lost node
  unsigned fan_out = 64;                       ///< of the tree of daemons; with no more nodes than this there is no tree
  unsigned staging_nodes = 2;                  ///< nodes that copy to shared storage at the same time
  std::vector<std::uint32_t> failure_groups;   ///< of the nodes, by index; empty: each is one of its own
  unsigned max_restarts = 3;                   ///< of a rank that dies of signals, between two committed waves
  unsigned max_failed_recoveries = 5;          ///< in a row, because of errors, not of lost nodes
  bool oversubscribe = false;
  bool double_up = true;
  bool require_checkpoints = false;
  bool keep_images = false;
  std::set<int> leave_on;                      ///< signals at which the job leaves: a wave, its staging, kRestartable
  std::set<int> rollback_on;                   ///< signals at which all ranks go back to the newest wave
  std::uint64_t wall_end_unix_s = 0;           ///< time at which the batch system kills the job; 0: unknown. It leaves in time
  std::size_t output_kept_bytes = 64 << 20;  ///< of all streams together, to recognize repeated output
  std::size_t input_kept_bytes = 64 << 20;
};

/** "partner:1", "xor:4", "none": as --redundancy has it. */
std::string redundancy_words(const Redundancy& redundancy);
/** "rank 3", "ranks 0-3,7". */
std::string rank_list(const std::vector<Rank>& ranks);

}  // namespace reprise::job
