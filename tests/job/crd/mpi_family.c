// SPDX-License-Identifier: GPL-2.0-only
// mpi_family CHILDREN ROUNDS [PAUSE_US]: the ranks spawn this program again, and all merge into one communicator, parents
// first. Numbers go around the ring of all and are verified; each round ends with a sum over all. Rank 0 of the parents
// prints every tenth round, and the total at the end; each process says when it is through.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ring_round.h"

int main(int argc, char **argv)
{
  const int children = argc > 1 ? atoi(argv[1]) : 2;
  const long rounds = argc > 2 ? atol(argv[2]) : 10;
  const unsigned pause_us = argc > 3 ? (unsigned)atol(argv[3]) : 0;
  MPI_Comm parent, other, all;
  int rank, size;
  long total = 0;

  MPI_Init(&argc, &argv);
  MPI_Comm_get_parent(&parent);
  other = parent;
  if (parent == MPI_COMM_NULL)
    MPI_Comm_spawn(argv[0], argv + 1, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
  MPI_Intercomm_merge(other, parent != MPI_COMM_NULL, &all);
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &size);
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (long round = 0; round < rounds; ++round) {
    total += one_round(all, rank, size, round);
    if (rank == 0 && round % 10 == 0) printf("round %ld\n", round);
    if (pause_us) usleep(pause_us);
  }
  if (rank == 0) printf("total %ld\n", total);
  fprintf(stderr, "process %d of %d is through\n", rank, size);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&other);
  MPI_Finalize();
  return 0;
}
