// SPDX-License-Identifier: GPL-2.0-only
// fenix_2014 SPARES RANK [spawn]: a ring that is written for the interface of 2014. RANK dies once, in a step behind its second commit.
#include <fenix_2014.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GROUP = 4, STEP = 0, VALUES = 1, STEPS = 12, EVERY = 3, COUNT = 300, DIES_IN = 7 };

#define CHECK(condition)                                                          \
  do {                                                                            \
    if (!(condition)) {                                                           \
      fprintf(stderr, "line %d: %s does not hold: %s\n", __LINE__, #condition, fenix_last_error()); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                               \
    }                                                                             \
  } while (0)

static int status, error, step, commit;
static double values[COUNT];
static MPI_Comm world;

static int restore(void)
{
  const int code = Fenix_Checkpoint_restore(STEP, &step, 1, MPI_INT, GROUP, FENIX_LATEST_COMMIT);
  if (code == FENIX_ERROR_NODATA_FOUND) return 0;
  CHECK(code == FENIX_SUCCESS);
  CHECK(Fenix_Checkpoint_restore(VALUES, values, COUNT, MPI_DOUBLE, GROUP, step / EVERY - 1) == FENIX_SUCCESS);
  CHECK(Fenix_Checkpoint_restore(VALUES, values, COUNT, MPI_DOUBLE, GROUP, 99) == FENIX_ERROR_INVALID_TIMESTAMP);
  return 1;
}

static void advance(int rank, int size)
{
  double left = 0;
  MPI_Sendrecv(&values[COUNT - 1], 1, MPI_DOUBLE, (rank + 1) % size, 1, &left, 1, MPI_DOUBLE, (rank + size - 1) % size, 1, world,
               MPI_STATUS_IGNORE);
  for (int i = 0; i < COUNT; i++) {
    const double old = values[i];
    values[i] = 0.5 * values[i] + 0.5 * left + 0.01;
    left = old;
  }
}

int main(int argc, char **argv)
{
  MPI_Init(&argc, &argv);
  const int spares = argc > 1 ? atoi(argv[1]) : 0, dies = argc > 2 ? atoi(argv[2]) : -1;
  const Fenix_Comm_repair_policy policy = argc > 3 && !strcmp(argv[3], "spawn") ? FENIX_SPAWN : FENIX_NO_SPAWN;
  int rank, size;
  Fenix_Init(&status, MPI_COMM_WORLD, &world, &argc, &argv, spares, policy, &error);
  CHECK(error == FENIX_SUCCESS);
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  CHECK(Fenix_Data_group_create(GROUP, world, 0, 0, FENIX_DATA_POLICY_IN_MEMORY_RAID, NULL, NULL) == FENIX_SUCCESS);
  if (!restore()) {
    step = 0;
    for (int i = 0; i < COUNT; i++) values[i] = i % 17 + rank;
  }
  CHECK(status != FENIX_STATUS_INITIAL_RANK || step == 0);
  while (step < STEPS) {
    if (step == DIES_IN && rank == dies && status == FENIX_STATUS_INITIAL_RANK) kill(getpid(), SIGKILL);
    advance(rank, size);
    if (++step % EVERY) continue;
    CHECK(Fenix_Checkpoint(STEP, &step, 1, MPI_INT, GROUP, FENIX_DATA_SUBSET_FULL) == FENIX_SUCCESS);
    CHECK(Fenix_Checkpoint(VALUES, values, COUNT, MPI_DOUBLE, GROUP, FENIX_DATA_SUBSET_FULL) == FENIX_SUCCESS);
    CHECK(Fenix_Checkpoint_commit(&commit, GROUP) == FENIX_SUCCESS && commit == step / EVERY - 1);
  }
  double own = 0, sum;
  for (int i = 0; i < COUNT; i++) own += values[i] * (i % 5);
  MPI_Reduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, world);
  CHECK(dies < 0 || status != FENIX_STATUS_INITIAL_RANK);
  if (rank == 0) printf("result step %d %.17g\n", step, sum);
  fflush(stdout);
  Fenix_Finalize();
  MPI_Finalize();
  return 0;
}
