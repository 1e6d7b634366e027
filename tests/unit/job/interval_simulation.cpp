// SPDX-License-Identifier: GPL-2.0-only
#include "interval_simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "crrun/coordinator/interval.h"

namespace reprise::job::sim {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

Now at(double s) {
  const auto ms = static_cast<std::uint64_t>(std::llround(s * 1e3));
  return {ms, ms * 1'000'000};
}

class Job {
 public:
  Job(const Conditions& conditions, const Pace& pace, std::uint64_t seed)
      : is_(conditions),
        pace_(pace),
        failures_(seed),
        costs_(seed ^ 0x9e3779b97f4a7c15),
        interval_(pace.mtbf_given ? static_cast<std::uint64_t>(std::llround(conditions.mtbf * 1e3 * conditions.nodes)) : 0, pace.share) {}

  Outcome run() {
    interval_.running(is_.nodes, at(0));
    fails_ = time_between_failures();
    due_ = next();
    while (true) {
      const double ends = std::max(now_, stands_until_) + is_.work - done_;
      const double next = std::min({ends, fails_, commits_, staged_, wave_begins()});
      advance(next);
      if (next == ends) break;
      if (next == fails_) fail();
      else if (next == staged_) end_staging();
      else if (next == commits_) commit();
      else begin_wave();
    }
    out_.time = now_;
    return out_;
  }

 private:
  bool fixed() const { return pace_.fixed > 0; }
  double next() { return out_.last_interval = fixed() ? pace_.fixed : static_cast<double>(interval_.choose().interval_ms) / 1e3; }
  double wave_begins() const {
    if (commits_ < kNever) return kNever;
    // As Coordinator::staging_lags().
    const double waits = fixed() || staged_ == kNever ? 0 : static_cast<double>(interval_.patience_ms()) / 1e3;
    return std::max(now_, std::min(due_ + waits, std::max(due_, waits ? staged_ : 0)));
  }
  double time_between_failures() {
    std::weibull_distribution<double> distribution(is_.shape, is_.mtbf / std::tgamma(1 + 1 / is_.shape));
    return now_ + distribution(failures_);
  }
  void advance(double to) {
    done_ += std::max(0.0, to - std::max(now_, stands_until_));
    now_ = to;
  }

  void begin_wave() {
    begun_ = now_;
    saves_ = done_;
    cost_ = is_.cost;
    if (is_.cost_spread > 0)
      cost_ *= std::lognormal_distribution<double>(-is_.cost_spread * is_.cost_spread / 2, is_.cost_spread)(costs_);
    stands_until_ = now_ + cost_;
    commits_ = now_ + std::max(is_.whole, cost_);
    ++out_.waves;
    out_.cost += after_recovery_ ? 0 : cost_;
    after_recovery_ = false;
  }
  void commit() {
    commits_ = kNever;
    waits_ = saves_;
    waits_since_ = now_;
    begin_staging();
    interval_.wave(static_cast<std::uint64_t>(cost_ * 1e9), at(begun_), at(now_));
    due_ = begun_ + next();
  }
  void begin_staging() {
    if (!waits_ || staged_ < kNever) return;
    stages_ = *waits_;
    stages_since_ = waits_since_;
    waits_.reset();
    staged_ = now_ + is_.staging;
  }
  void end_staging() {
    staged_ = kNever;
    usable_ = stages_;
    interval_.staged(at(stages_since_).unix_ns, at(now_));
    begin_staging();
  }
  void fail() {
    // The simulation is of what a failure costs, not of how it is noticed: all of the silence is at the end.
    interval_.failed(0, at(now_));
    waits_.reset();
    commits_ = staged_ = kNever;
    done_ = usable_;
    ++out_.failures;
    for (fails_ = time_between_failures(); fails_ < now_ + is_.recovery; fails_ = time_between_failures()) {
      now_ = fails_;
      ++out_.failures;
    }
    now_ = stands_until_ = now_ + is_.recovery;
    interval_.recovered(at(now_));
    interval_.running(is_.nodes, at(now_));
    due_ = now_;
    after_recovery_ = true;
  }

  Conditions is_;
  Pace pace_;
  std::mt19937_64 failures_, costs_;
  Interval interval_;
  Outcome out_;
  double now_ = 0, done_ = 0, usable_ = 0;  ///< work done, and at the newest wave that a recovery can use
  double stands_until_ = 0, due_ = 0, fails_ = 0;
  // the open wave
  double begun_ = 0, saves_ = 0, cost_ = 0, commits_ = kNever;
  bool after_recovery_ = false;
  // staging: the wave that is being copied, and a newer one
  double stages_ = 0, stages_since_ = 0, staged_ = kNever;
  std::optional<double> waits_;
  double waits_since_ = 0;
};

}  // namespace

Outcome run(const Conditions& conditions, const Pace& pace, std::uint64_t seed) {
  return Job(conditions, pace, seed).run();
}

Outcome run(const Conditions& conditions, const Pace& pace, unsigned jobs, std::uint64_t first_seed) {
  Outcome sum;
  for (unsigned job = 0; job < jobs; ++job) {
    const Outcome one = run(conditions, pace, first_seed + job);
    sum.time += one.time / jobs;
    sum.waves += one.waves / jobs;
    sum.failures += one.failures / jobs;
    sum.cost += one.cost / jobs;
    sum.last_interval += one.last_interval / jobs;
  }
  return sum;
}

Best best_fixed(const Conditions& conditions, unsigned jobs, std::uint64_t first_seed, double ratio) {
  // Begin where theory expects the minimum, and go on while it gets better. With shorter intervals than staging takes there are others.
  const auto with = [&](double interval) { return Best{interval, run(conditions, {.fixed = interval}, jobs, first_seed)}; };
  Best best = with(std::max(best_interval(conditions.cost, conditions.mtbf), conditions.whole + conditions.staging));
  for (const double direction : {ratio, 1 / ratio}) {
    unsigned worse = 0;
    for (double interval = best.interval * direction; worse < 4 && interval >= conditions.cost; interval *= direction) {
      const Best one = with(interval);
      const bool better = one.outcome.time < best.outcome.time;
      if (better) best = one;
      worse = better ? 0 : worse + 1;
    }
  }
  return best;
}

double lost(const Outcome& outcome, const Conditions& conditions) { return outcome.time / conditions.work - 1; }

std::vector<Conditions> grid(double shape, double failures) {
  constexpr double kHour = 3600;
  std::vector<Conditions> out;
  for (const double cost : {0.2, 2.0, 20.0})
    for (const double mtbf : {kHour, 6 * kHour, 48 * kHour})
      for (const double recovery : {5.0, 300.0})
        out.push_back({.cost = cost,
                       .cost_spread = 0.3,
                       .whole = 3 * cost,
                       .staging = 5 + 5 * cost,
                       .recovery = recovery,
                       .mtbf = mtbf,
                       .shape = shape,
                       .work = failures * mtbf,
                       .nodes = 64});  // a job that fails every hour is a large one
  return out;
}

}  // namespace reprise::job::sim
