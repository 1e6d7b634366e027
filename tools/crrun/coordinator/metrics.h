// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What crrun --metrics tells about a job, as plain numbers. metrics_text.h makes text of them. */
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "phases.h"
#include "recovery.h"
#include "waves.h"

namespace reprise::job {

/** Several measurements of one duration. */
struct Durations {
  std::uint64_t count = 0, sum_ns = 0, last_ns = 0;
  void add(std::uint64_t ns) {
    ++count;
    sum_ns += ns;
    last_ns = ns;
  }
};

/** What the coordinator counts. Every crrun begins with 0. */
struct Tally {
  Durations wave;             ///< of committed waves, from the begin to the commit
  Durations wave_standstill;  ///< of the slowest rank in each of them: its messages were held, or its threads stood still
  Durations protection;       ///< from the commit of a wave until the loss of any one node leaves all its images
  Durations staging;          ///< from the commit of a wave until all its images are in shared storage
  std::array<std::uint64_t, kGivenUps> given_up{};       ///< waves, by reason
  std::array<std::uint64_t, kCauseKinds> recoveries{};   ///< that have begun, by cause
  /**
   * From the last sign of life of what failed until all ranks run again. Of recoveries that follow each other, because a node
   * is lost during one or one fails, this is one time, and the first cause is its cause.
   */
  std::array<Durations, kCauseKinds> recovery_standstill{};
  std::uint64_t last_recovery_standstill_ns = 0;
  std::uint64_t nodes_lost = 0;
  std::uint64_t ranks_moved = 0;      ///< to other nodes, by recoveries
  std::uint64_t ranks_restarted = 0;  ///< as new processes, by recoveries
  std::uint64_t ranks_failed = 0;     ///< of which the program was told, spawned ones included
  std::uint64_t written_bytes = 0;    ///< of images of committed waves, on the nodes
  std::uint64_t staged_bytes = 0;     ///< of images, written to shared storage
  std::uint64_t copied_bytes = 0;     ///< of images, read from other nodes to keep them
};

struct Metrics {
  std::string job;      ///< id
  std::string program;  ///< without arguments; several are separated by " : "
  std::uint64_t ranks = 0;
  std::uint64_t begun_unix_ns = 0;
  Phase phase = Phase::starting;
  int exit_code = 0;                                    ///< once the phase is `finished`
  std::map<std::string, std::uint64_t> nodes;           ///< number of nodes, by member_state()
  std::optional<std::int64_t> lease_left_ms;            ///< see Membership::take_lease_left()
  std::uint64_t wave_interval_ms = 0;                   ///< at present; 0: waves are taken on request
  std::optional<std::uint64_t> newest_wave_unix_ns;     ///< when the newest committed wave was committed
  std::optional<std::uint64_t> newest_staged_unix_ns;   ///< the same for the newest one in shared storage
  std::optional<std::uint64_t> newest_safe_unix_ns;     ///< the same for the newest one that survives the loss of a node
  bool redundant = false;                               ///< nodes keep images of each other
  std::optional<std::uint64_t> waves_to_stage;          ///< committed and not completely staged; nothing without --shared
  Tally tally;
};

}  // namespace reprise::job
