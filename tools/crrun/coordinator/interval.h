// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The interval between waves that crrun chooses itself (--checkpoint-every auto).
 *
 * The model. An interval P runs from the begin of a wave to the begin of the next, since a wave saves what its ranks are at its
 * begin. A wave costs the ranks C: what the slowest one lost while its connections were emptied and its threads stood still.
 * Failures are a Poisson process with one in M. A failure costs:
 *
 *   - what was computed since the newest wave that a recovery can use. That is a staged one, L after its begin (without shared
 *     storage a committed one), so on average P/2 + L;
 *   - R, from the last sign of life until all ranks run again, and the wave that follows at once. A failure during the recovery
 *     only begins it anew.
 *
 * The lost share of the time is about C/P + (P/2 + L + R + C)/M. L and R are lost with every failure, whatever P is: with exponential
 * failures the best P does not depend on them, not only at the first order (for L: Vaidya, "Impact of checkpoint latency on overhead
 * ratio of a checkpointing scheme", IEEE Trans. Computers 46(8), 1997; for R: Daly). It is Young's square root of 2·C·M ("A first
 * order approximation to the optimum checkpoint interval", CACM 17(9), 1974) with the higher orders of Daly ("A higher order estimate of
 * the optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22(3), 2006).
 *
 * L has another effect: one wave is staged at a time, so P is not shorter than L.
 *
 * M is that of a node divided by the number of nodes with ranks. It is given, or learned: the rate of failures has a gamma
 * distribution, at first a wide one; then n failures in a time T of all nodes together are added to its parameters. The lost share is
 * linear in the rate, so the mean of the distribution is what the best P follows from.
 */
#include <cstdint>
#include <optional>

#include <nlohmann/json.hpp>

#include "types.h"

namespace reprise::job {

/** What is known of the job's waves and failures; later crruns go on with it. Means weigh newer values more. */
struct Learned {
  std::uint64_t waves = 0;         ///< that were measured
  std::uint64_t cost_us = 0;       ///< of a wave, to the ranks; mean
  std::uint64_t last_cost_us = 0;  ///< of the newest one
  std::uint64_t whole_ms = 0;      ///< from a wave's begin to its commit; mean
  std::uint64_t staged = 0;        ///< waves of which the staging was measured
  std::uint64_t staging_ms = 0;    ///< from the commit until all images are in shared storage; mean
  std::uint64_t recoveries = 0;    ///< that were measured
  std::uint64_t recovery_ms = 0;   ///< from the last sign of life until all ranks run; mean
  std::uint64_t failures = 0;      ///< that have sent the ranks back while they ran
  std::uint64_t node_ms = 0;       ///< time that the ranks ran, times the number of their nodes
  bool operator==(const Learned&) const = default;
};

/** What decided on the interval. */
enum class IntervalLimit : std::uint8_t {
  first,     ///< no wave was measured yet
  optimum,   ///< the least loss
  shortest,  ///< the optimum is shorter than any interval may be
  longest,   ///< the optimum is longer than any interval may be
  staging,   ///< it takes longer to stage a wave
  share,     ///< waves would cost more than the user allows
};
const char* name(IntervalLimit limit);

/** The interval, and why. Times in seconds; those that are not known yet are 0. */
struct IntervalChoice {
  std::uint64_t interval_ms = 0;  ///< from the begin of a wave to the begin of the next
  IntervalLimit limit = IntervalLimit::first;
  double cost = 0, usable_after = 0, recovery = 0;  ///< C, L, R
  double mtbf = 0;                ///< M, of the job
  bool mtbf_given = false;
  double optimum = 0;             ///< without any limit
  double share = 0;               ///< largest part of the run time that waves may cost
  double loss = 0;                ///< part of the run time that waves and failures will cost; 1 at most
  std::uint64_t failures = 0;     ///< so far
};
nlohmann::json to_json(const IntervalChoice& choice);

/**
 * Daly's estimate, which is Young's for a small @p cost.
 * @param cost of a checkpoint @param mtbf mean time between failures, in the same unit
 * @return the time from the begin of a checkpoint to the begin of the next that loses least
 */
double best_interval(double cost, double mtbf);

/** Measures, and decides. It is told of everything that happens, and is asked for the next interval. */
class Interval {
 public:
  static constexpr std::uint64_t kFirstMs = 30'000;  ///< to the first wave, which shows what one costs
  static constexpr std::uint64_t kShortestMs = 10'000, kLongestMs = 6 * 3'600'000;
  /** What is believed at first: the mean, and how few failures outweigh it. It spans two orders of magnitude. */
  static constexpr double kPriorNodeMtbfS = 180 * 86'400.0, kPriorFailures = 0.1;

  /** @param node_mtbf_ms mean time between failures of one node; 0: learn it @param share largest part of the run time that waves may cost */
  Interval(std::uint64_t node_mtbf_ms, double share) : node_mtbf_ms_(node_mtbf_ms), share_(share) {}

  /** All ranks run, on so many nodes. */
  void running(std::uint32_t nodes, Now now);
  /** The ranks stop running because something failed, of which the last sign of life came @p silence_ms ago. */
  void failed(std::uint64_t silence_ms, Now now);
  /** The ranks stop running, and nothing failed. */
  void stopped(Now now);
  /** A recovery has been completed; running() follows. */
  void recovered(Now now);
  /** A wave was committed. @param cost_ns to the slowest rank */
  void wave(std::uint64_t cost_ns, Now begun, Now now);
  /** A wave is in shared storage. @param committed_unix_ns time of day of its commit */
  void staged(std::uint64_t committed_unix_ns, Now now);

  IntervalChoice choose() const;
  /** @return how long a due wave waits while the one before it is still being staged, which may take for ever */
  std::uint64_t patience_ms() const;

  const Learned& learned() const { return learned_; }
  void go_on_from(const Learned& learned) { learned_ = learned; }

 private:
  void count_time(Now now);

  std::uint64_t node_mtbf_ms_;
  double share_;
  Learned learned_;
  std::uint32_t nodes_ = 1;
  std::optional<std::uint64_t> counted_ms_;  ///< the ranks run, and node_ms has all until then
  std::optional<std::uint64_t> failed_ms_;   ///< since then the ranks do not run
};

}  // namespace reprise::job
