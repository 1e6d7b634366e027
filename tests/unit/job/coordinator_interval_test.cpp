// SPDX-License-Identifier: GPL-2.0-only
// The interval between waves that crrun chooses: the decision, and its distance from the optimum in simulated jobs.
#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "crrun/coordinator/interval.h"
#include "interval_simulation.h"

namespace reprise::job::sim {
namespace {

constexpr double kHour = 3600, kDay = 24 * kHour;

Now at(double s) { return {static_cast<std::uint64_t>(s * 1e3), static_cast<std::uint64_t>(s * 1e9)}; }

std::uint64_t ns(double s) { return static_cast<std::uint64_t>(s * 1e9); }

TEST(BestIntervalTest, IsDalys) {
  // Figures 3 to 5 of his paper. His interval does not include the checkpoint.
  EXPECT_NEAR(best_interval(5, 24 * 60) - 5, 117, 0.5);
  EXPECT_NEAR(best_interval(5, 6 * 60) - 5, 57, 0.5);
  EXPECT_NEAR(best_interval(5, 15) - 5, 9.1, 0.1);
  EXPECT_DOUBLE_EQ(best_interval(5, 2), 7) << "a checkpoint costs more than twice the time between failures";
}

TEST(BestIntervalTest, LosesNoMoreThanTheExactOptimum) {
  // The run time with exponential failures, up to a factor that the interval does not change.
  const auto time = [](double interval, double cost, double mtbf) { return std::expm1(interval / mtbf) / (interval - cost); };
  for (const double mtbf : {100.0, 1e3, 1e4, 1e6}) {
    const double cost = 1;
    double least = 1e300;
    for (double interval = 1.5; interval < 10 * std::sqrt(mtbf); interval *= 1.002) least = std::min(least, time(interval, cost, mtbf));
    EXPECT_LE(time(best_interval(cost, mtbf), cost, mtbf), least * 1.0001) << mtbf;
  }
}

TEST(IntervalTest, TheFirstWaveComesSoonAndShowsWhatOneCosts) {
  Interval interval(60'000 * 1000, 0.05);
  interval.running(10, at(0));
  EXPECT_EQ(interval.choose().limit, IntervalLimit::first);
  EXPECT_EQ(interval.choose().interval_ms, Interval::kFirstMs);
  interval.wave(ns(1), at(30), at(32));
  const IntervalChoice choice = interval.choose();
  EXPECT_EQ(choice.limit, IntervalLimit::optimum);
  EXPECT_DOUBLE_EQ(choice.mtbf, 6000) << "of ten nodes";
  EXPECT_NEAR(static_cast<double>(choice.interval_ms), 1000 * best_interval(1, 6000), 1);
  EXPECT_DOUBLE_EQ(choice.usable_after, 2) << "without shared storage a committed wave is usable";
  EXPECT_NEAR(choice.loss, 1 / 109.9 + (109.9 / 2 + 2 + 1) / 6000, 1e-4);
}

TEST(IntervalTest, TheRanksOwnCostCountsNotThatOfWritingAndStaging) {
  Interval interval(3'600'000, 0.05), slow(3'600'000, 0.05);
  for (Interval* one : {&interval, &slow}) one->running(1, at(0));
  interval.wave(ns(2), at(30), at(32));
  slow.wave(ns(2), at(30), at(60));
  slow.staged(at(60).unix_ns, at(80));
  EXPECT_EQ(slow.choose().limit, IntervalLimit::optimum);
  EXPECT_EQ(slow.choose().interval_ms, interval.choose().interval_ms);
  EXPECT_GT(slow.choose().loss, interval.choose().loss) << "but failures cost more";
}

TEST(IntervalTest, WavesComeNoFasterThanTheyAreStaged) {
  Interval interval(3'600'000, 0.05);
  interval.running(1, at(0));
  interval.wave(ns(0.5), at(30), at(40));
  interval.staged(at(40).unix_ns, at(240));
  EXPECT_EQ(interval.choose().limit, IntervalLimit::staging);
  EXPECT_EQ(interval.choose().interval_ms, 210'000u);
  EXPECT_NEAR(interval.choose().optimum, std::sqrt(3600), 1);
  EXPECT_GE(interval.patience_ms(), 4 * 210'000u);
}

TEST(IntervalTest, WavesNeverCostMoreThanTheirShare) {
  Interval interval(120'000, 0.05);
  interval.running(1, at(0));
  interval.wave(ns(3), at(30), at(35));
  EXPECT_EQ(interval.choose().limit, IntervalLimit::share);
  EXPECT_EQ(interval.choose().interval_ms, 60'000u);
  // One wave among many costs much more: it is followed by as much time as it needs, the next ones are not.
  Interval steady(6 * 3'600'000, 0.05);
  steady.running(1, at(0));
  for (int i = 0; i < 20; ++i) steady.wave(ns(0.5), at(i), at(i));
  steady.wave(ns(60), at(30), at(95));
  EXPECT_EQ(steady.choose().limit, IntervalLimit::share);
  EXPECT_EQ(steady.choose().interval_ms, 1'200'000u);
  for (int i = 0; i < 30; ++i) steady.wave(ns(0.5), at(100 + i), at(100 + i));
  EXPECT_EQ(steady.choose().limit, IntervalLimit::optimum);
  EXPECT_NEAR(steady.choose().cost, 0.5, 0.02);
}

TEST(IntervalTest, HasBounds) {
  Interval often(60'000, 0.9), seldom(20'000 * 86'400'000ull, 0.05);
  for (Interval* one : {&often, &seldom}) one->running(1, at(0));
  often.wave(ns(0.001), at(30), at(31));
  EXPECT_EQ(often.choose().limit, IntervalLimit::shortest);
  EXPECT_EQ(often.choose().interval_ms, Interval::kShortestMs);
  seldom.wave(ns(1), at(30), at(31));
  EXPECT_EQ(seldom.choose().limit, IntervalLimit::longest);
  EXPECT_EQ(seldom.choose().interval_ms, Interval::kLongestMs);
}

TEST(IntervalTest, LearnsFromFailuresAndFromTheirAbsence) {
  Interval interval(0, 0.05);
  interval.running(4, at(0));
  EXPECT_NEAR(interval.choose().mtbf, Interval::kPriorNodeMtbfS / 4, 1);
  interval.wave(ns(1), at(30), at(32));
  const std::uint64_t at_first = interval.choose().interval_ms;
  for (int i = 1; i <= 3; ++i) {
    interval.failed(2000, at(i * 10 * kHour));
    interval.recovered(at(i * 10 * kHour + 3));
    interval.running(4, at(i * 10 * kHour + 3));
  }
  EXPECT_EQ(interval.learned().failures, 3u);
  EXPECT_EQ(interval.learned().recovery_ms, 5000u) << "with the silence before";
  const double node_time = 4 * 30 * kHour - 2 * 4 * 3;
  EXPECT_NEAR(interval.choose().mtbf, (0.1 * 180 * kDay + node_time) / 3.1 / 4, 1);
  const std::uint64_t after_failures = interval.choose().interval_ms;
  EXPECT_LT(after_failures, at_first / 2);
  interval.wave(ns(1), at(60 * kDay), at(60 * kDay));
  EXPECT_GT(interval.choose().interval_ms, after_failures * 3 / 2) << "two months without a failure";
  // What users want is no failure, and its time does not count.
  const Learned before = interval.learned();
  interval.stopped(at(60 * kDay));
  interval.recovered(at(61 * kDay));
  interval.failed(0, at(61 * kDay));
  EXPECT_EQ(interval.learned(), before);
}

TEST(IntervalTest, AGivenTimeIsNotLearned) {
  Interval interval(86'400'000, 0.05);
  interval.running(2, at(0));
  interval.failed(0, at(100));
  interval.running(1, at(200));
  EXPECT_DOUBLE_EQ(interval.choose().mtbf, kDay) << "of one node";
  EXPECT_TRUE(interval.choose().mtbf_given);
  EXPECT_EQ(interval.choose().failures, 1u);
}

TEST(IntervalTest, NoStateMakesItsTimesOverflow) {
  Interval interval(0, 0.05);
  Learned wild;
  wild.waves = wild.cost_us = wild.last_cost_us = wild.whole_ms = wild.staged = wild.staging_ms = wild.recovery_ms = wild.node_ms = ~0ull;
  wild.failures = wild.recoveries = ~0ull;
  interval.go_on_from(wild);
  interval.running(1, at(0));
  EXPECT_LE(interval.choose().interval_ms, 400ull * 86'400'000);
  EXPECT_LE(interval.patience_ms(), 4 * 2 * 400ull * 86'400'000);
  EXPECT_LE(interval.choose().loss, 1);
  interval.wave(ns(1), at(1), at(2));
  interval.failed(0, at(3));
  interval.recovered(at(4));
}

// ------------------------------------------------------------------------------- compared with the optimum

std::string words(const Conditions& c) {
  char text[200];
  std::snprintf(text, sizeof text, "cost %g s, whole %g s, staging %g s, recovery %g s, one failure in %g s, shape %g", c.cost, c.whole,
                c.staging, c.recovery, c.mtbf, c.shape);
  return text;
}

TEST(OptimumTest, TheChosenIntervalIsWithinFivePercentOfTheBest) {
  constexpr unsigned kJobs = 30;
  for (const double shape : {1.0, 0.7})
    for (const Conditions& conditions : grid(shape, 30)) {
      SCOPED_TRACE(words(conditions));
      const Best best = best_fixed(conditions, kJobs, 1, 1.25);
      const Outcome given = run(conditions, {}, kJobs, 1), learned = run(conditions, {.mtbf_given = false}, kJobs, 1);
      EXPECT_LE(given.time, 1.05 * best.outcome.time);
      EXPECT_LE(learned.time, 1.05 * best.outcome.time);
      // The lost time as well, which is a smaller number. What is believed at first is wrong by a factor of up to 68.
      EXPECT_LE(lost(given, conditions), 1.1 * lost(best.outcome, conditions))
          << "every " << given.last_interval << " s; best: every " << best.interval << " s";
      EXPECT_LE(lost(learned, conditions), 1.25 * lost(best.outcome, conditions))
          << "every " << learned.last_interval << " s at the end; best: every " << best.interval << " s";
    }
}

TEST(OptimumTest, StagingThatIsSlowerThanTheOptimumIsWaitedFor) {
  Conditions conditions{.cost = 1, .whole = 3, .staging = 600, .recovery = 30, .mtbf = 6 * kHour, .work = 40 * 6 * kHour};
  const Best best = best_fixed(conditions, 40, 1);
  const Outcome chosen = run(conditions, {}, 40, 1);
  EXPECT_LE(lost(chosen, conditions), 1.05 * lost(best.outcome, conditions)) << chosen.last_interval << " " << best.interval;
  EXPECT_NEAR(chosen.last_interval, 603, 1);
}

TEST(OptimumTest, WavesCostNoMoreThanTheirShareOfTheRunTime) {
  for (const double share : {0.01, 0.05, 0.2})
    for (const double cost : {1.0, 30.0, 120.0}) {
      Conditions conditions{.cost = cost, .cost_spread = 1, .whole = 2 * cost, .recovery = 30, .mtbf = 2 * kHour, .work = 200 * kHour};
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        const Outcome chosen = run(conditions, {.share = share}, seed);
        // The first wave, which shows what one costs, is paid for afterwards.
        EXPECT_LE(chosen.cost, share * chosen.time + 3 * cost) << share << " " << cost;
      }
    }
}

}  // namespace
}  // namespace reprise::job::sim
