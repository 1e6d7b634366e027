// SPDX-License-Identifier: GPL-2.0-only
// fwi SHOTS SLAVES WORKERS ROUNDS STEPS [plain]: finds the velocity of sound under the surface from what receivers there have
// recorded of several shots. Each shot is a task of a slave, a booster; slaves have WORKERS boosters of their own. Without
// slaves (0) this process computes all itself: the result that the others must have, to the last bit. STEPS is the length of a
// record. With `plain` tasks have no clause `recover`. Prints in each round how badly the model explains the records.
#include "fwi.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "croff.hpp"
#include "report.h"

namespace {

constexpr int kColumns = 240, kDepth = 120;

/** The true underground: layers, and a lens that the first model does not know. @return m = 1 / velocity² */
std::vector<double> model(const Grid &grid, bool with_lens) {
  std::vector<double> m(points(grid));
  for (int column = 0; column < grid.columns; ++column)
    for (int depth = 0; depth < grid.depth; ++depth) {
      const double x = (column - 0.5 * grid.columns) / (0.18 * grid.columns), z = (depth - 0.45 * grid.depth) / (0.12 * grid.depth);
      double velocity = 1800 + 10.0 * depth;
      if (with_lens && x * x + z * z < 1) velocity += 250;
      m[column * grid.depth + depth] = 1 / (velocity * velocity);
    }
  return m;
}

/** Shots go to the slaves in turn. Each slave is a group of its own: a loss among them replaces only what is lost. */
class Slaves {
 public:
  Slaves(int count, const Setup &setup) : setup_(setup) {
    for (int i = 0; i < count; ++i) groups_.emplace_back(MPI_COMM_SELF, 1, 1);
  }

  void observe(const std::vector<double> &model, std::vector<std::vector<double>> &traces) {
    for (int shot = 0; shot < setup_.shots; ++shot)
      if (groups_.empty())
        observe_alone(model.data(), traces[shot].data(), setup_, shot);
      else
        croff::task(place(shot), clause(), croff::in(model.data(), model.size()), croff::out(traces[shot].data(), traces[shot].size()),
                    observe_shot, setup_, shot);
    croff::taskwait();
  }

  void invert(const std::vector<double> &model, const std::vector<std::vector<double>> &observed,
              std::vector<std::vector<double>> &gradients, std::vector<std::vector<double>> &misfits) {
    for (int shot = 0; shot < setup_.shots; ++shot)
      if (groups_.empty())
        invert_alone(model.data(), observed[shot].data(), gradients[shot].data(), misfits[shot].data(), setup_, shot);
      else
        croff::task(place(shot), clause(), croff::in(model.data(), model.size()),
                    croff::in(observed[shot].data(), observed[shot].size()), croff::out(gradients[shot].data(), gradients[shot].size()),
                    croff::out(misfits[shot].data(), misfits[shot].size()), invert_shot, setup_, shot);
    croff::taskwait();
  }

 private:
  croff::onto place(int shot) const { return croff::onto(groups_[shot % groups_.size()], 0); }
  croff::recover_clause clause() const { return {setup_.clause}; }

  const Setup setup_;
  std::vector<croff::group> groups_;
};

/** A step down the gradient, whose largest change is 1 % of the slowness. */
void improve(std::vector<double> &m, const std::vector<std::vector<double>> &gradients, const Grid &grid) {
  std::vector<double> sum(m.size());
  for (const auto &gradient : gradients)
    for (std::size_t i = 0; i < m.size(); ++i) sum[i] += gradient[i];
  // Next to the sources the gradient is large and says nothing.
  for (int column = 0; column < grid.columns; ++column)
    for (int depth = 0; depth < grid.receivers_at + 8; ++depth) sum[column * grid.depth + depth] = 0;
  double largest = 0, slowest = 0;
  for (double value : sum) largest = std::max(largest, std::abs(value));
  for (double value : m) slowest = std::max(slowest, value);
  for (std::size_t i = 0; i < m.size(); ++i) m[i] -= 0.01 * slowest * sum[i] / largest;
}

unsigned long invert(Setup setup, int slave_count, int rounds) {
  const Grid &grid = setup.grid;
  Slaves slaves(slave_count, setup);
  std::vector<std::vector<double>> observed(setup.shots, std::vector<double>(samples(grid)));
  slaves.observe(model(grid, true), observed);
  std::vector<double> m = model(grid, false);
  for (int round = 0; round < rounds; ++round) {
    // Gradients are sums: they begin with zeros.
    std::vector<std::vector<double>> gradients(setup.shots, std::vector<double>(points(grid)));
    std::vector<std::vector<double>> misfits(setup.shots, std::vector<double>(grid.columns));
    slaves.invert(m, observed, gradients, misfits);
    double misfit = 0;
    for (const auto &of_shot : misfits)
      for (double value : of_shot) misfit += value;
    improve(m, gradients, grid);
    printf("round %d: misfit %.17g\n", round, misfit);
    fflush(stdout);
  }
  return checksum(m);
}

}  // namespace

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  const auto given = words(argc, argv);
  try {
    croff::init();
    if (given.size() < 5) give_up("usage: fwi SHOTS SLAVES WORKERS ROUNDS STEPS [plain]");
    const auto number = [&](int i) { return atoi(given[i].c_str()); };
    Setup setup{{kColumns, kDepth, number(4), 10, 1.5e-3, 4}, number(0), number(2), CROFF_RECOVER};
    if (given.size() > 5 && given[5] == "plain") setup.clause = CROFF_NO_RECOVER;
    if (setup.shots < 1 || number(1) < 0 || setup.workers < 1 || setup.workers > kColumns / 4 || number(3) < 1 || setup.grid.steps < 1)
      give_up("fwi: a number is out of its range");
    const double begin = MPI_Wtime();
    const unsigned long sum = invert(setup, number(1), number(3));
    report("fwi", MPI_Wtime() - begin, sum);
  } catch (const croff::error &error) {
    give_up("fwi: error " + std::to_string(error.code) + ": " + error.what());
  }
  MPI_Finalize();
  return 0;
}
