// SPDX-License-Identifier: GPL-2.0-only
// nbody BODIES STEPS global|partial|alone [plain]: gravity by direct sums, with a leapfrog in time.
//   global   all masters have one group, with a booster for each: a loss replaces all boosters
//   partial  each master has a group of its own with one booster: a loss replaces this one
//   alone    without boosters, in rank 0: the result that the others must have, to the last bit
//   plain    tasks have no clause `recover`
// Each master has the same share of the bodies. In each step its booster computes their new places and velocities from the
// places of all; then the masters exchange the places.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

#include "croff.hpp"
#include "report.h"

namespace {

constexpr double kStep = 1e-3, kSoftening = 1e-2;  // softening keeps the force of close bodies finite

// Arrays of all bodies' x, then y, then z: of a share it is the same with its number of bodies.
struct Bodies {
  std::vector<double> places, velocities, masses;
};

/** A ball of bodies that rotates slowly, the same in every process. */
Bodies initial(int n) {
  Bodies bodies{std::vector<double>(3 * n), std::vector<double>(3 * n), std::vector<double>(n)};
  std::mt19937_64 numbers(42);
  const auto random = [&] { return static_cast<double>(numbers() >> 11) * 0x1p-53; };
  for (int i = 0; i < n; ++i) {
    double x, y, z;
    do {
      x = 2 * random() - 1, y = 2 * random() - 1, z = 2 * random() - 1;
    } while (x * x + y * y + z * z > 1);
    bodies.places[i] = x, bodies.places[n + i] = y, bodies.places[2 * n + i] = z;
    bodies.velocities[i] = -0.5 * y, bodies.velocities[n + i] = 0.5 * x;
    bodies.masses[i] = (0.5 + random()) / n;
  }
  return bodies;
}

/**
 * One step of `count` bodies from `first`. The sums are in the order of the bodies: the result does not depend on the shares.
 * @param kick the time by which the velocities advance: half a step in the first one, so that they are between the places
 */
void step(const double *places, const double *masses, double *velocities, double *moved, int n, int first, int count, double kick) {
  const double *x = places, *y = places + n, *z = places + 2 * n;
  for (int i = 0; i < count; ++i) {
    const int me = first + i;
    double ax = 0, ay = 0, az = 0;
    for (int j = 0; j < n; ++j) {
      const double dx = x[j] - x[me], dy = y[j] - y[me], dz = z[j] - z[me];
      const double square = dx * dx + dy * dy + dz * dz + kSoftening * kSoftening;
      const double pull = masses[j] / (square * std::sqrt(square));
      ax += pull * dx, ay += pull * dy, az += pull * dz;
    }
    velocities[i] += kick * ax, velocities[count + i] += kick * ay, velocities[2 * count + i] += kick * az;
    for (int axis = 0; axis < 3; ++axis)
      moved[axis * count + i] = places[axis * n + me] + kStep * velocities[axis * count + i];
  }
}

double kick(int number) { return number == 0 ? kStep / 2 : kStep; }

/** The places of all, from those of the shares. */
void arrange(const std::vector<double> &shares, int masters, std::vector<double> &places) {
  const int n = static_cast<int>(places.size()) / 3, count = n / masters;
  for (int master = 0; master < masters; ++master)
    for (int axis = 0; axis < 3; ++axis)
      memcpy(&places[axis * n + master * count], &shares[(master * 3 + axis) * count], count * sizeof(double));
}

unsigned long alone(int n, int steps) {
  Bodies bodies = initial(n);
  std::vector<double> moved(3 * n);
  for (int i = 0; i < steps; ++i) {
    step(bodies.places.data(), bodies.masses.data(), bodies.velocities.data(), moved.data(), n, 0, n, kick(i));
    bodies.places = moved;
  }
  return checksum(bodies.places);
}

unsigned long offloaded(int n, int steps, bool global, croff::recover_clause clause) {
  int rank, masters;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &masters);
  if (n % masters) give_up("nbody: the masters cannot share the bodies evenly");
  const int count = n / masters, first = rank * count;
  croff::group boosters(global ? MPI_COMM_WORLD : MPI_COMM_SELF, 1, global ? masters : 1);
  Bodies bodies = initial(n);
  std::vector<double> velocities(3 * count), moved(3 * count), shares(3 * n);
  for (int axis = 0; axis < 3; ++axis)
    memcpy(&velocities[axis * count], &bodies.velocities[axis * n + first], count * sizeof(double));
  for (int i = 0; i < steps; ++i) {
    croff::task(croff::onto(boosters, global ? rank : 0), clause, croff::in(bodies.places.data(), 3 * n),
                croff::in(bodies.masses.data(), n), croff::inout(velocities.data(), 3 * count), croff::out(moved.data(), 3 * count),
                step, n, first, count, kick(i));
    croff::taskwait();
    MPI_Allgather(moved.data(), 3 * count, MPI_DOUBLE, shares.data(), 3 * count, MPI_DOUBLE, MPI_COMM_WORLD);
    arrange(shares, masters, bodies.places);
  }
  boosters.free();
  return checksum(bodies.places);
}

}  // namespace

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  const auto given = words(argc, argv);
  try {
    croff::init();
    const int n = given.size() > 2 ? atoi(given[0].c_str()) : 0, steps = given.size() > 2 ? atoi(given[1].c_str()) : 0;
    if (n < 1 || steps < 1 || (given[2] != "global" && given[2] != "partial" && given[2] != "alone"))
      give_up("usage: nbody BODIES STEPS global|partial|alone [plain]");
    const auto clause = given.size() > 3 && given[3] == "plain" ? croff::no_recover : croff::recover;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    unsigned long sum = 0;
    if (given[2] != "alone")
      sum = offloaded(n, steps, given[2] == "global", clause);
    else if (rank == 0)
      sum = alone(n, steps);
    MPI_Barrier(MPI_COMM_WORLD);
    // With groups of their own only the masters that had a loss count a replacement: the driver takes the sum of all lines.
    report("nbody", MPI_Wtime() - begin, sum);
  } catch (const croff::error &error) {
    give_up("nbody: error " + std::to_string(error.code) + ": " + error.what());
  }
  MPI_Finalize();
  return 0;
}
