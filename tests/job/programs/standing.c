// SPDX-License-Identifier: GPL-2.0-only
// standing HOLD: numbers go around a ring and are verified, as long as the file HOLD is there. Files in the working directory
// have rank 1 stand still:
//   forget   it forgets to send a number, once: all ranks wait for ever. It renames the file, which no rollback undoes.
//   sleep    it sleeps while the file is there
//   compute  it computes while the file is there
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static int there(const char *file)
{
  return access(file, F_OK) == 0;
}

static void compute(void)
{
  volatile double x = 1;
  for (int i = 0; i < 10000000; ++i) x = x * 0.999 + 1;
}

int main(int argc, char **argv)
{
  int rank, size, go = argc == 2;
  long rounds = 0, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (; go; ++rounds) {
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    long out = rounds * size + rank, in = -1, all = 0;
    while (rank == 1 && there("sleep")) usleep(500000);
    while (rank == 1 && there("compute")) compute();
    if (rank != 1 || rename("forget", "forgotten") != 0) MPI_Send(&out, 1, MPI_LONG, right, 0, MPI_COMM_WORLD);
    MPI_Recv(&in, 1, MPI_LONG, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (in != rounds * size + left) {
      fprintf(stderr, "rank %d: wrong number in round %ld\n", rank, rounds);
      MPI_Abort(MPI_COMM_WORLD, 9);
    }
    MPI_Allreduce(&in, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    sum += all;
    if (rank == 0) go = there(argv[1]);
    MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0 && rounds % 10 == 0) printf("round %ld\n", rounds);
    usleep(20000);
  }
  if (rank == 0) printf("standing: %ld iterations, sum %ld\n", rounds, sum);
  MPI_Finalize();
  return 0;
}
