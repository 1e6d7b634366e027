// SPDX-License-Identifier: GPL-2.0-only
// The time that simulated jobs lose with fixed intervals between waves, and with those that crrun chooses. Prints CSV.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "interval_simulation.h"

using namespace reprise::job::sim;

namespace {

void print(const std::string& name, const Conditions& c, const char* what, double interval, const Outcome& outcome) {
  std::printf("\"%s\",%g,%g,%g,%g,%g,\"%s\",%.1f,%.4f,%.1f,%.1f\n", name.c_str(), c.cost, c.staging, c.recovery, c.mtbf, c.shape, what,
              interval, 100 * lost(outcome, c), outcome.waves, outcome.failures);
  std::fflush(stdout);
}

std::string named(const Conditions& c) {
  char text[160];
  std::snprintf(text, sizeof text, "%g s a wave, a failure in %g h, staging %g s, recovery %g s%s", c.cost, c.mtbf / 3600, c.staging,
                c.recovery, c.shape < 1 ? ", Weibull" : "");
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Compare the interval between waves that crrun chooses with fixed ones, in simulated jobs. Prints CSV."};
  unsigned jobs = 60;
  double failures = 100;
  app.add_option("--jobs", jobs, "for each interval")->capture_default_str();
  app.add_option("--failures", failures, "of each job, without lost time")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  std::printf("case,cost_s,staging_s,recovery_s,mtbf_s,shape,what,interval_s,lost_percent,waves,failures\n");
  std::vector<Conditions> all = grid(1, failures), weibull = grid(0.7, failures);
  all.insert(all.end(), weibull.begin(), weibull.end());
  // Staging that takes longer than the best interval.
  all.push_back({.cost = 1, .whole = 3, .staging = 600, .recovery = 30, .mtbf = 6 * 3600.0, .work = failures * 6 * 3600.0});
  for (const Conditions& one : all) {
    const std::string name = named(one);
    const Best best = best_fixed(one, jobs, 1);
    print(name, one, "best", best.interval, best.outcome);
    for (const bool given : {true, false}) {
      const Outcome chosen = run(one, {.mtbf_given = given, .share = 0.05}, jobs, 1);
      print(name, one, given ? "chosen, given" : "chosen, learned", chosen.last_interval, chosen);
    }
    // A curve for some of them.
    const bool middle = one.mtbf == 6 * 3600.0 && ((one.cost == 2 && one.recovery == 5) || (one.cost == 20 && one.recovery == 300 && one.shape == 1));
    if (!middle && one.staging != 600) continue;
    for (double interval = best.interval / 12; interval < best.interval * 12; interval *= 1.3)
      if (interval > one.whole) print(name, one, "fixed", interval, run(one, {.fixed = interval}, jobs, 1));
  }
  return 0;
}
