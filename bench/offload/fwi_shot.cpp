// SPDX-License-Identifier: GPL-2.0-only
// A shot: the tasks of slaves, which have workers of their own, and those of the workers.
#include <cmath>
#include <cstdlib>

#include "croff.hpp"
#include "fwi.h"

namespace {

constexpr double kPeak = 12;  // Hz

double ricker(double time) {
  const double at = M_PI * kPeak * (time - 1.2 / kPeak), square = at * at;
  return (1 - 2 * square) * std::exp(-square);
}

int column_of(const Setup &setup, int shot) { return (2 * shot + 1) * setup.grid.columns / (2 * setup.shots); }

struct Part {
  int first, count;
};
Part part_of(const Setup &setup, int worker) {
  const int first = worker * setup.grid.columns / setup.workers;
  return {first, (worker + 1) * setup.grid.columns / setup.workers - first};
}

/** From the shot to the last record. @param each called with the number of each step after it */
template <class Each>
void forward(Slab &slab, const Setup &setup, int shot, Each each) {
  for (int i = 0; i < setup.grid.steps; ++i) {
    slab.add(column_of(setup, shot), setup.grid.receivers_at, ricker(i * setup.grid.dt));
    slab.step();
    each(i);
  }
}

void observe_part(const double *model, double *traces, const Setup &setup, int shot, Part part, MPI_Comm comm) {
  const Grid &grid = setup.grid;
  Slab slab(grid, part.first, part.count, model, comm);
  forward(slab, setup, shot, [&](int i) {
    for (int column = 0; column < part.count; ++column) traces[column * grid.steps + i] = slab.at(column, grid.receivers_at);
  });
}

/** The gradient is the product of the field's acceleration and of the differences sent back in time, summed over time. */
void invert_part(const double *model, const double *observed, double *gradient, double *misfit, const Setup &setup, int shot, Part part,
                 MPI_Comm comm) {
  const Grid &grid = setup.grid;
  std::vector<double> differences(static_cast<std::size_t>(part.count) * grid.steps);
  std::vector<std::vector<double>> accelerations(grid.steps);
  Slab field(grid, part.first, part.count, model, comm);
  forward(field, setup, shot, [&](int i) {
    accelerations[i] = field.acceleration();
    for (int column = 0; column < part.count; ++column)
      differences[column * grid.steps + i] = field.at(column, grid.receivers_at) - observed[column * grid.steps + i];
  });
  Slab back(grid, part.first, part.count, model, comm);
  for (int i = grid.steps - 1; i >= 0; --i) {
    for (int column = 0; column < part.count; ++column)
      back.add(part.first + column, grid.receivers_at, differences[column * grid.steps + i]);
    back.step();
    for (int column = 0; column < part.count; ++column)
      for (int depth = 0; depth < grid.depth; ++depth)
        gradient[column * grid.depth + depth] -= accelerations[i][column * grid.depth + depth] * back.at(column, depth);
  }
  for (int column = 0; column < part.count; ++column) {
    misfit[column] = 0;
    for (int i = 0; i < grid.steps; ++i) misfit[column] += differences[column * grid.steps + i] * differences[column * grid.steps + i];
  }
}

/** A slave is a booster, too: each of both can be given faults of its own, FWI_SLAVE_FAULT and FWI_WORKER_FAULT (CROFF_FAULT). */
void be(const std::string &role) {
  const char *faults = getenv(("FWI_" + role + "_FAULT").c_str()), *files = getenv("FWI_FAULT_FILES");
  if (!faults || !files) return;
  setenv("CROFF_FAULT", faults, 1);
  setenv("CROFF_FAULT_FILES", (std::string(files) + "-" + role).c_str(), 1);
}

void observe_task(const double *model, double *traces, Setup setup, int shot, int worker) {
  be("WORKER");
  observe_part(model, traces, setup, shot, part_of(setup, worker), MPI_COMM_WORLD);
}

void invert_task(const double *model, const double *observed, double *gradient, double *misfit, Setup setup, int shot, int worker) {
  be("WORKER");
  invert_part(model, observed, gradient, misfit, setup, shot, part_of(setup, worker), MPI_COMM_WORLD);
}

}  // namespace

void observe_shot(const double *model, double *traces, Setup setup, int shot) {
  be("SLAVE");
  croff::group workers(MPI_COMM_SELF, 1, setup.workers);
  for (int worker = 0; worker < setup.workers; ++worker) {
    const Part part = part_of(setup, worker);
    croff::task(croff::onto(workers, worker), croff::recover_clause{setup.clause},
                croff::in(model + part.first * setup.grid.depth, part.count * setup.grid.depth),
                croff::out(traces + part.first * setup.grid.steps, part.count * setup.grid.steps), observe_task, setup, shot, worker);
  }
  croff::taskwait();
  workers.free();
}

void invert_shot(const double *model, const double *observed, double *gradient, double *misfit, Setup setup, int shot) {
  be("SLAVE");
  const Grid &grid = setup.grid;
  croff::group workers(MPI_COMM_SELF, 1, setup.workers);
  for (int worker = 0; worker < setup.workers; ++worker) {
    const Part part = part_of(setup, worker);
    croff::task(croff::onto(workers, worker), croff::recover_clause{setup.clause},
                croff::in(model + part.first * grid.depth, part.count * grid.depth),
                croff::in(observed + part.first * grid.steps, part.count * grid.steps),
                croff::out(gradient + part.first * grid.depth, part.count * grid.depth), croff::out(misfit + part.first, part.count),
                invert_task, setup, shot, worker);
  }
  croff::taskwait();
  workers.free();
}

void observe_alone(const double *model, double *traces, const Setup &setup, int shot) {
  observe_part(model, traces, setup, shot, {0, setup.grid.columns}, MPI_COMM_SELF);
}

void invert_alone(const double *model, const double *observed, double *gradient, double *misfit, const Setup &setup, int shot) {
  invert_part(model, observed, gradient, misfit, setup, shot, {0, setup.grid.columns}, MPI_COMM_SELF);
}
