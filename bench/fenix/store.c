// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a checkpoint costs beside the copy and the transfer that it consists of.
 *
 *   fenix_cost BYTES ROUNDS
 *
 * In each round, one after another: memcpy of so many bytes; MPI_Sendrecv of them with the partner; Fenix_Data_member_store;
 * Fenix_Data_commit_barrier. All ranks begin together, and the slowest counts. Prints a line of seconds for each round.
 */
#include <fenix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kGroup = 0, kSteps = 4, kWarm = 2 };

static void check(int code)
{
  if (code == FENIX_SUCCESS) return;
  fprintf(stderr, "fenix_cost: error %d: %s\n", code, fenix_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
  static int role, error;
  static MPI_Comm comm;
  const int bytes = argc > 2 ? atoi(argv[1]) : 0, rounds = argc > 2 ? atoi(argv[2]) : 0;
  int rank, size, partners[] = {1, 1};
  double times[kSteps], slowest[kSteps], begun;

  if (bytes <= 0 || rounds <= 0) {
    fprintf(stderr, "usage: fenix_cost BYTES ROUNDS    both from 1, under an even number of ranks\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  Fenix_Init(&role, MPI_COMM_WORLD, &comm, &argc, &argv, 0, 0, MPI_INFO_NULL, &error);
  if (error < 0) return 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  char *const data = malloc(bytes), *const copy = malloc(bytes);
  if (!data || !copy || size % 2) {
    fprintf(stderr, "fenix_cost: no memory for %d bytes, or an odd number of ranks: %d\n", bytes, size);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  check(Fenix_Data_group_create(kGroup, comm, 0, 0, FENIX_DATA_POLICY_IN_MEMORY_RAID, partners, NULL));
  check(Fenix_Data_member_create(kGroup, 0, data, bytes, MPI_BYTE));
  for (int round = -kWarm; round < rounds; round++) {
    memset(data, round + rank + kWarm, bytes);
    for (int step = 0; step < kSteps; step++) {
      MPI_Barrier(comm);
      begun = MPI_Wtime();
      if (step == 0) memcpy(copy, data, bytes);
      if (step == 1)
        MPI_Sendrecv(data, bytes, MPI_BYTE, rank ^ 1, 1, copy, bytes, MPI_BYTE, rank ^ 1, 1, comm, MPI_STATUS_IGNORE);
      if (step == 2) check(Fenix_Data_member_store(kGroup, 0, FENIX_DATA_SUBSET_FULL));
      if (step == 3) check(Fenix_Data_commit_barrier(kGroup, NULL));
      times[step] = MPI_Wtime() - begun;
      if (step == 0 && memcmp(copy, data, bytes)) abort(); /* so that the copy is made */
    }
    MPI_Reduce(times, slowest, kSteps, MPI_DOUBLE, MPI_MAX, 0, comm);
    if (rank == 0 && round >= 0)
      printf("memcpy %.6f sendrecv %.6f store %.6f commit %.6f\n", slowest[0], slowest[1], slowest[2], slowest[3]);
  }
  check(Fenix_Finalize());
  MPI_Finalize();
  return 0;
}
