// SPDX-License-Identifier: GPL-2.0-only
// Times of small collectives: prints, for each, its name and the microseconds of one, as the slowest rank sees it.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALLTOALL_BYTES = 4096, WARM_UP = 200 };

static char *from, *to;

static void allreduce(void)
{
  double in = 1, out;

  MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(void)
{
  MPI_Alltoall(from, ALLTOALL_BYTES, MPI_BYTE, to, ALLTOALL_BYTES, MPI_BYTE, MPI_COMM_WORLD);
}

static void measure(const char *name, void (*collective)(void), int times, int rank)
{
  double begin, own, slowest;

  for (int i = 0; i < WARM_UP; i++) collective();
  MPI_Barrier(MPI_COMM_WORLD);
  begin = MPI_Wtime();
  for (int i = 0; i < times; i++) collective();
  own = (MPI_Wtime() - begin) / times * 1e6;
  MPI_Reduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%s %.3f\n", name, slowest);
}

int main(int argc, char **argv)
{
  const int times = argc > 1 ? atoi(argv[1]) : 2000;
  int rank, ranks;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  from = calloc(ranks, ALLTOALL_BYTES);
  to = calloc(ranks, ALLTOALL_BYTES);
  if (!from || !to) MPI_Abort(MPI_COMM_WORLD, 1);
  measure("allreduce", allreduce, times, rank);
  measure("alltoall", alltoall, times, rank);
  free(from);
  free(to);
  MPI_Finalize();
  return 0;
}
