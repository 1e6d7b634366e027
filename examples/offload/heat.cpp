// SPDX-License-Identifier: LGPL-2.1-or-later
// Heat flows through a plate whose upper edge is hot. Each booster has a block of rows; within a task the boosters exchange
// the rows at the ends of their blocks by MPI.
//
//   heat [ROUNDS [HOSTS [PER_HOST]]]
//
// The first tasks of all boosters form a recovery domain, the second ones the next: such tasks need each other, so they are
// executed again together. Until all tasks of a domain have finished, the master's plate is as before.
#include <cstdio>
#include <cstdlib>
#include <croff.hpp>
#include <vector>

constexpr int kRows = 96, kColumns = 384;  // of a block
constexpr int kSweeps = 10;                // in a task

// A task: some sweeps over a block. The regions come first, then the values.
void relax(double *block, int sweeps) {
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);  // in a task it has the boosters of the group
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int upper = rank > 0 ? rank - 1 : MPI_PROC_NULL, lower = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
  std::vector<double> above(kColumns, rank == 0 ? 100.0 : 0.0), below(kColumns, 0.0), next(kRows * kColumns);
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    // No error is handled here: if a peer is lost, this booster ends, too, and the library repeats the tasks.
    MPI_Sendrecv(block, kColumns, MPI_DOUBLE, upper, 1, below.data(), kColumns, MPI_DOUBLE, lower, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(block + (kRows - 1) * kColumns, kColumns, MPI_DOUBLE, lower, 2, above.data(), kColumns, MPI_DOUBLE, upper, 2,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int row = 0; row < kRows; ++row) {
      const double *here = block + row * kColumns;
      const double *up = row > 0 ? here - kColumns : above.data(), *down = row + 1 < kRows ? here + kColumns : below.data();
      for (int i = 0; i < kColumns; ++i) {
        const double left = i > 0 ? here[i - 1] : 0, right = i + 1 < kColumns ? here[i + 1] : 0;
        next[row * kColumns + i] = 0.25 * (up[i] + down[i] + left + right);
      }
    }
    for (int i = 0; i < kRows * kColumns; ++i) block[i] = next[i];
  }
}

double mean(const std::vector<double> &plate) {
  double sum = 0;
  for (double value : plate) sum += value;
  return sum / plate.size();
}

void work(int rounds, int hosts, int per_host) {
  croff::group boosters(MPI_COMM_SELF, hosts, per_host);
  const int count = boosters.size(), block = kRows * kColumns;
  std::vector<double> plate(count * block);
  for (int round = 1; round <= rounds; ++round) {
    for (int i = 0; i < count; ++i)
      croff::task(croff::onto(boosters, i), croff::recover, croff::inout(&plate[i * block], block), relax, kSweeps);
    // The master may submit many rounds at once: tasks wait for those that they depend on. It waits only to print.
    if (round % 10 && round != rounds) continue;
    croff::taskwait();
    croff_counts counts;
    croff_count(&counts);
    printf("round %d: mean temperature %.15f\n", round, mean(plate));
    fflush(stdout);
    fprintf(stderr, "heat: %lu tasks, %lu executions, %lu groups replaced\n", counts.tasks, counts.executions, counts.replacements);
  }
  boosters.free();
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  try {
    croff::init();  // boosters do not return from here
    const auto number = [&](int i, int otherwise) { return argc > i ? atoi(argv[i]) : otherwise; };
    work(number(1, 50), number(2, 1), number(3, 2));
  } catch (const croff::error &error) {
    fprintf(stderr, "heat: error %d: %s\n", error.code, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
