/* SPDX-License-Identifier: GPL-2.0-only */
/* What the processes of a communicator do in a round: numbers go around their ring and are verified, then comes a sum over all. */
#ifndef RING_ROUND_H
#define RING_ROUND_H 1

#include <mpi.h>
#include <stdio.h>

enum { LONGS = 4096 };

static long one_round(MPI_Comm all, int rank, int size, long round)
{
  static long out[LONGS], in[LONGS];
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  long sum = 0, mine;

  for (int i = 0; i < LONGS; ++i) out[i] = round * 1000003 + rank * LONGS + i;
  MPI_Sendrecv(out, LONGS, MPI_LONG, right, 7, in, LONGS, MPI_LONG, left, 7, all, MPI_STATUS_IGNORE);
  for (int i = 0; i < LONGS; ++i)
    if (in[i] != round * 1000003 + left * LONGS + i) {
      fprintf(stderr, "process %d: wrong number in round %ld\n", rank, round);
      MPI_Abort(MPI_COMM_WORLD, 9);
    }
  mine = in[round % LONGS] % 977;
  MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, all);
  return sum;
}

#endif
