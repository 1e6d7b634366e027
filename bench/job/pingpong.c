// SPDX-License-Identifier: GPL-2.0-only
// pingpong TIMES [returned]: messages of 0 bytes between two ranks, as the Intel MPI Benchmarks send them. Prints microseconds,
// the mean and the median. The mean is that of the Benchmarks; others that use the same processors change it, and hardly
// the median.
//   pingpong   one way: half of the time from MPI_Send to the answer
//   pingping   both send at once (MPI_Isend, MPI_Recv, MPI_Wait)
// With `returned` errors are returned, as to a program that deals with failures; otherwise they end it.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 200 };

static int rank;

static void pong(void)
{
  if (rank == 0) MPI_Send(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
  MPI_Recv(NULL, 0, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
}

static void ping(void)
{
  MPI_Request request;

  MPI_Isend(NULL, 0, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &request);
  MPI_Recv(NULL, 0, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static int compare(const void *a, const void *b)
{
  const double *x = a, *y = b;

  return (*x > *y) - (*x < *y);
}

static void measure(const char *name, void (*step)(void), int times, int one_way)
{
  double *at = malloc((times + 1) * sizeof *at), mean;

  if (!at) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int i = 0; i < WARM_UP; i++) step();
  MPI_Barrier(MPI_COMM_WORLD);
  at[0] = MPI_Wtime();
  for (int i = 1; i <= times; i++) {
    step();
    at[i] = MPI_Wtime();
  }
  mean = (at[times] - at[0]) / times;
  for (int i = 0; i < times; i++) at[i] = at[i + 1] - at[i];
  qsort(at, times, sizeof *at, compare);
  if (rank == 0) printf("%s %.4f %.4f\n", name, mean / (one_way ? 2 : 1) * 1e6, at[times / 2] / (one_way ? 2 : 1) * 1e6);
  free(at);
}

int main(int argc, char **argv)
{
  const int times = argc > 1 ? atoi(argv[1]) : 1000;
  int ranks;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2 || times <= 0) MPI_Abort(MPI_COMM_WORLD, 2);
  if (argc > 2 && !strcmp(argv[2], "returned")) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  measure("pingpong", pong, times, 1);
  measure("pingping", ping, times, 0);
  MPI_Finalize();
  return 0;
}
