/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Heat flows along a rod. Each rank has a block of it. Lost ranks are replaced by spares, or by spawned processes.
 *
 *   heat [STEPS [SPARES [LOST]]]       LOST: this rank kills itself in the middle, to show it
 *
 *   crrun --recover ulfm --oversubscribe -n 5 ./heat 200 1 2
 *
 * What recovery needs is marked by (*).
 */
#include <fenix.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { kBlock = 20000, kEvery = 20, kGroup = 0, kRod = 0, kStep = 1 };

static double rod[kBlock], next[kBlock];
static int step; /* not a local variable: survivors return to Fenix_Init by longjmp (*) */

static void check(int code)
{
  if (code == FENIX_SUCCESS) return;
  fprintf(stderr, "heat: error %d: %s\n", code, fenix_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void advance(MPI_Comm comm, int rank, int size)
{
  double left = 0, right = 0;
  const int before = rank ? rank - 1 : MPI_PROC_NULL, after = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;

  MPI_Sendrecv(&rod[0], 1, MPI_DOUBLE, before, 1, &right, 1, MPI_DOUBLE, after, 1, comm, MPI_STATUS_IGNORE);
  MPI_Sendrecv(&rod[kBlock - 1], 1, MPI_DOUBLE, after, 2, &left, 1, MPI_DOUBLE, before, 2, comm, MPI_STATUS_IGNORE);
  for (int i = 0; i < kBlock; i++)
    next[i] = 0.25 * (i > 0 ? rod[i - 1] : left) + 0.5 * rod[i] + 0.25 * (i + 1 < kBlock ? rod[i + 1] : right);
  for (int i = 0; i < kBlock; i++) rod[i] = next[i];
  step++;
}

int main(int argc, char **argv)
{
  static int role, error, rank, size;
  static MPI_Comm comm;
  double sum = 0, all = 0;

  MPI_Init(&argc, &argv);
  const int steps = argc > 1 ? atoi(argv[1]) : 200, spares = argc > 2 ? atoi(argv[2]) : 0, lost = argc > 3 ? atoi(argv[3]) : -1;
  Fenix_Init(&role, MPI_COMM_WORLD, &comm, &argc, &argv, spares, 1, MPI_INFO_NULL, &error);                       /* (*) */
  if (error < 0) return 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  check(Fenix_Data_group_create(kGroup, comm, 0, 0, FENIX_DATA_POLICY_IN_MEMORY_RAID, NULL, NULL));               /* (*) */
  check(Fenix_Data_member_create(kGroup, kRod, rod, kBlock, MPI_DOUBLE));                                         /* (*) */
  check(Fenix_Data_member_create(kGroup, kStep, &step, 1, MPI_INT));                                              /* (*) */
  for (int i = 0; i < kBlock; i++) rod[i] = (i + rank * kBlock) % 1000;
  step = 0;
  if (role != FENIX_ROLE_INITIAL_RANK &&                                                                          /* (*) */
      Fenix_Data_member_restore(kGroup, kRod, rod, kBlock, FENIX_DATA_SNAPSHOT_LATEST, NULL) == FENIX_SUCCESS)    /* (*) */
    check(Fenix_Data_member_restore(kGroup, kStep, &step, 1, FENIX_DATA_SNAPSHOT_LATEST, NULL));                  /* (*) */
  if (role != FENIX_ROLE_INITIAL_RANK && rank == 0) fprintf(stderr, "heat: all are back at step %d\n", step);
  while (step < steps) {
    if (role == FENIX_ROLE_INITIAL_RANK && rank == lost && step == steps / 2) raise(SIGKILL);
    advance(comm, rank, size);
    if (step % kEvery) continue;
    check(Fenix_Data_member_store(kGroup, FENIX_DATA_MEMBER_ALL, FENIX_DATA_SUBSET_FULL));                        /* (*) */
    check(Fenix_Data_commit_barrier(kGroup, NULL));                                                               /* (*) */
  }
  for (long i = 0; i < kBlock; i++) sum += (i + (long) rank * kBlock) * rod[i];
  MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, comm);
  if (rank == 0) printf("after %d steps the weighted sum is %.17g\n", step, all);
  check(Fenix_Finalize());                                                                                        /* (*) */
  MPI_Finalize();
  return 0;
}
