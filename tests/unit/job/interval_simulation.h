// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file A long job with waves and failures, without nodes and messages: how long it runs with a fixed interval between waves, and with
 * the one that crrun's Interval chooses. One wave is staged at a time, and if newer ones wait then the newest is the next. A failure
 * sends the job back to the newest staged wave, and a wave follows each recovery.
 */
#include <cstdint>
#include <vector>

namespace reprise::job::sim {

/** What a job's waves and failures are like. Times in seconds. */
struct Conditions {
  double cost = 1;          ///< of a wave, to the ranks, which stand still so long; mean
  double cost_spread = 0;   ///< the costs are distributed log-normally; standard deviation of the logarithm
  double whole = 2;         ///< from a wave's begin to its commit; no less than its cost
  double staging = 10;      ///< from the commit to the end of staging, if no other wave is being staged
  double recovery = 10;     ///< from a failure until all ranks run
  double mtbf = 10'000;     ///< of the job
  double shape = 1;         ///< of the Weibull distribution of the times between failures; 1: exponential
  double work = 100'000;    ///< run time without waves and failures
  std::uint32_t nodes = 8;
};

/** The interval: a fixed one, or chosen by Interval. */
struct Pace {
  double fixed = 0;                ///< from the begin of a wave to the begin of the next; 0: Interval chooses
  bool mtbf_given = true;          ///< Interval is told the truth; else it learns
  double share = 0.9;
};

struct Outcome {
  double time = 0;                 ///< until the job has ended; with several jobs the mean
  double waves = 0, failures = 0;
  double cost = 0;                 ///< time that ranks stood still in waves which Interval or the fixed interval made due
  double last_interval = 0;        ///< chosen last
};

/** Run one job. The same @p seed gives the same failures, whatever the pace is. */
Outcome run(const Conditions& conditions, const Pace& pace, std::uint64_t seed);
/** Run so many jobs. @return the means */
Outcome run(const Conditions& conditions, const Pace& pace, unsigned jobs, std::uint64_t first_seed);

struct Best {
  double interval = 0;
  Outcome outcome;
};
/** Search for the fixed interval with the shortest run time. @param ratio of neighbouring intervals that are tried */
Best best_fixed(const Conditions& conditions, unsigned jobs, std::uint64_t first_seed, double ratio = 1.15);

/** @return the lost part of the time, divided by the time without losses */
double lost(const Outcome& outcome, const Conditions& conditions);

/** The conditions under which intervals are compared: a grid of costs, times between failures and recovery times. @param failures of each job */
std::vector<Conditions> grid(double shape, double failures);

}  // namespace reprise::job::sim
