// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What all parts of the coordinator speak of. Nothing here does I/O, asks a clock or starts a thread. */
#include <cstdint>
#include <string>
#include <vector>

#include "job/messages.pb.h"

namespace reprise::job {

using Rank = std::uint32_t;
using NodeIndex = std::uint32_t;
using WaveNumber = std::uint32_t;
using RecoveryNumber = std::uint32_t;

/** The moment of an input, given from outside: for deadlines, and for people. */
struct Now {
  std::uint64_t ms = 0;       ///< monotonic
  std::uint64_t unix_ns = 0;  ///< of day
};

/** Node of every rank, by rank. */
using PlacementTable = std::vector<NodeIndex>;

/** Tables of all ranks are sent whole up to so many ranks; above, only what changed. */
inline constexpr std::size_t kWholeTables = 1024;

/** Exit code when the job could not go on and --restart can take it up. */
inline constexpr int kRestartable = 75;

/** What the user chose, and what follows from it. */
struct Settings {
  JobSpec spec;
  std::vector<Node> nodes;
  std::string job_directory;                   ///< JOBDIR; for messages and paths of staged images
  std::uint64_t wave_interval_ms = 0;          ///< 0: only on request and after recoveries
  std::uint64_t lost_after_ms = 3000;          ///< silence that counts as death
  std::uint64_t start_timeout_ms = 60'000;     ///< until a daemon says Hello
  std::uint64_t quiesce_timeout_ms = 30'000;   ///< told to daemons in WaveBegin
  std::uint64_t wave_timeout_ms = 600'000;     ///< for a whole wave
  std::uint64_t recover_timeout_ms = 600'000;  ///< for each of a recovery's two steps
  std::uint64_t run_timeout_ms = 0;            ///< 0: the job may run for ever
  std::uint64_t rejoin_every_ms = 10'000;      ///< how often a daemon is tried to be started on a lost node
  unsigned fan_out = 64;                       ///< of the tree of daemons; with fewer nodes there is none
  unsigned staging_nodes = 2;                  ///< that copy to shared storage at once
  unsigned max_restarts = 3;                   ///< of a rank that dies of signals, between two committed waves
  unsigned max_failed_recoveries = 5;          ///< in a row, by errors rather than by lost nodes
  bool map_by_node = false;
  bool oversubscribe = false;
  bool double_up = true;
  bool require_checkpoints = false;
  bool keep_images = false;
  std::size_t output_kept_bytes = 64 << 20;  ///< of all streams, to tell what is said again
  std::size_t input_kept_bytes = 64 << 20;
};

/** "rank 3", "ranks 0-3,7". */
std::string rank_list(const std::vector<Rank>& ranks);

}  // namespace reprise::job
