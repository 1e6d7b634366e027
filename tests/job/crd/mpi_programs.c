// SPDX-License-Identifier: GPL-2.0-only
// mpi_programs NAME [WHILE]: one of several programs of a job. All ranks add numbers together again and again, as long as the
// file WHILE is there; each sum is verified. At the end each rank prints NAME, its rank, the number of its program, an
// environment variable and its processors; rank 0 of each program prints how many ranks run that program.
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void fail(const char *what)
{
  fprintf(stderr, "wrong: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 9);
}

static void print_processors(char *text, size_t size)
{
  cpu_set_t set;
  size_t used = 0;

  text[0] = 0;
  if (sched_getaffinity(0, sizeof set, &set)) return;
  for (int cpu = 0; cpu < CPU_SETSIZE && used + 8 < size; ++cpu)
    if (CPU_ISSET(cpu, &set)) used += (size_t)snprintf(text + used, size - used, "%s%d", used ? "," : "", cpu);
}

int main(int argc, char **argv)
{
  int rank, size, there, *number, own_size, own_rank;
  MPI_Comm own;
  char processors[256];

  MPI_Init(&argc, &argv);
  if (argc < 2) fail("no name");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &there);
  if (!there) fail("there is no MPI_APPNUM");
  MPI_Comm_split(MPI_COMM_WORLD, *number, rank, &own);
  MPI_Comm_size(own, &own_size);
  MPI_Comm_rank(own, &own_rank);
  for (long turn = 1;; ++turn) {
    long mine[2] = {turn * (rank + 1), argc > 2 && !access(argv[2], F_OK)}, sums[2];
    MPI_Allreduce(mine, sums, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (sums[0] != turn * size * (size + 1) / 2) fail("sum over all");
    if (sums[1] < size) break;
    usleep(20000);
  }
  print_processors(processors, sizeof processors);
  printf("%s: rank %d, program %d, WHO=%s, processors %s\n", argv[1], rank, *number, getenv("WHO") ? getenv("WHO") : "", processors);
  if (own_rank == 0) printf("%s: %d of %d ranks\n", argv[1], own_size, size);
  MPI_Comm_free(&own);
  MPI_Finalize();
  return 0;
}
