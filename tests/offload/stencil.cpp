// SPDX-License-Identifier: GPL-2.0-only
// A line of numbers in blocks, one for each booster. In a task the boosters exchange the ends of their blocks by MPI.
#include <unistd.h>

#include <cmath>
#include <vector>

#include "modes.h"

namespace {

double next(double left, double here, double right) { return 0.25 * left + 0.5 * here + 0.25 * right + 1e-3 * std::sin(here); }

void relax(double *block, int n, double left, double right) {
  double before = left;
  for (int i = 0; i < n; ++i) {
    const double here = block[i];
    block[i] = next(before, here, i + 1 < n ? block[i + 1] : right);
    before = here;
  }
}

/** One step on one booster. */
void step(double *block, int n, int number, int fatal, int late) {
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
  double from_left = 0, from_right = 0;
  const bool dies = (fatal >> rank & 1) && first("step-" + std::to_string(number) + "-" + std::to_string(rank));
  if (dies && !late) die();
  MPI_Sendrecv(&block[0], 1, MPI_DOUBLE, left, 1, &from_right, 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(&block[n - 1], 1, MPI_DOUBLE, right, 2, &from_left, 1, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  relax(block, n, from_left, from_right);
  if (dies) die();
}

std::vector<double> initial(int n) {
  std::vector<double> line(n);
  for (int i = 0; i < n; ++i) line[i] = std::cos(0.01 * i);
  return line;
}

bool as_alone(const std::vector<double> &line, int steps) {
  std::vector<double> alone = initial(static_cast<int>(line.size()));
  for (int i = 0; i < steps; ++i) relax(alone.data(), static_cast<int>(alone.size()), 0, 0);
  return memcmp(alone.data(), line.data(), line.size() * sizeof(double)) == 0;
}

// STEP:BOOSTERS:LATE is where boosters die: a mask of them, at the beginning of the task or at its end.
struct Fatal {
  int step = -1, boosters = 0, late = 0;
  explicit Fatal(const std::string &text) { sscanf(text.c_str(), "%d:%d:%d", &step, &boosters, &late); }
  int at(int number) const { return number == step ? boosters : 0; }
};

int replacements() {
  croff_counts counts;
  croff_count(&counts);
  return static_cast<int>(counts.replacements);
}

}  // namespace

void stencil() {
  const int n = argument(1, 1000), hosts = argument(2, 1), per_host = argument(3, 3), steps = argument(4, 10);
  const Fatal fatal(word(5, "-1:0:0"));
  const std::string stop = word(6, "");  // go on until this file is there
  croff::group boosters(MPI_COMM_SELF, hosts, per_host);
  std::vector<double> line = initial(n * boosters.size());
  printf("ready\n");
  int done = 0;
  for (; done < steps || (!stop.empty() && access(stop.c_str(), F_OK) != 0); ++done) {
    for (int i = 0; i < boosters.size(); ++i)
      croff::task(croff::onto(boosters, i), croff::recover, croff::inout(&line[i * n], n), step, n, done, fatal.at(done), fatal.late);
    // The master seldom waits: the order of the tasks gives the domains.
    if (done % 3 == 2 || !stop.empty()) croff::taskwait();
    if (!stop.empty() && done % 10 == 0) printf("step %d after %d replacements\n", done, replacements());
  }
  croff::taskwait();
  CHECK(as_alone(line, done));
  boosters.free();
  printf("the line is as without failures\n");
}

void shared_stencil() {
  const int n = argument(1, 1000), per_host = argument(3, 2), steps = argument(4, 6);
  const Fatal fatal(word(5, ""));
  int rank, masters;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &masters);
  croff::group boosters(MPI_COMM_WORLD, masters, per_host);
  // Master m has the blocks of its boosters.
  std::vector<double> whole = initial(n * boosters.size());
  double *mine = &whole[rank * per_host * n];
  for (int i = 0; i < steps; ++i) {
    for (int b = 0; b < per_host; ++b)
      croff::task(croff::onto(boosters, rank * per_host + b), croff::recover, croff::inout(&mine[b * n], n), step, n, i, fatal.at(i), fatal.late);
    if (i % 2) croff::taskwait();
  }
  croff::taskwait();
  std::vector<double> all(whole.size());
  MPI_Allgather(mine, n * per_host, MPI_DOUBLE, all.data(), n * per_host, MPI_DOUBLE, MPI_COMM_WORLD);
  CHECK(as_alone(all, steps));
  boosters.free();
  if (rank == 0) printf("the line is as without failures\n");
}
