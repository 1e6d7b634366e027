// SPDX-License-Identifier: GPL-2.0-only
// mpi_spawn [CHILDREN [TIMES [PAUSE_MS [APPS]]]]: all ranks together spawn this program again, TIMES times, as one
// program or as two of an MPI_Comm_spawn_multiple. A pause precedes each spawn; another pause follows while both sides
// run. Each time all merge into one communicator, a message goes around between parents and children, a sum over all is
// verified, and they disconnect. Rank 0 prints the results; the children print their ranks.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void fail(const char *what)
{
  fprintf(stderr, "wrong: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 9);
}

// Called on both sides. @return the sum of the values of all processes
static long together(MPI_Comm other, int high, int pause_ms)
{
  MPI_Comm all;
  int rank, size, remote, local;
  long mine, sum = 0, from_left = -1;

  MPI_Comm_remote_size(other, &remote);
  MPI_Comm_size(other, &local);
  MPI_Intercomm_merge(other, high, &all);
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &size);
  if (size != remote + local) fail("size of the merged communicator");
  mine = 1000 + rank;
  MPI_Sendrecv(&mine, 1, MPI_LONG, (rank + 1) % size, 3, &from_left, 1, MPI_LONG, (rank + size - 1) % size, 3, all,
               MPI_STATUS_IGNORE);
  if (from_left != 1000 + (rank + size - 1) % size) fail("message from the left");
  if (pause_ms) usleep((useconds_t)pause_ms * 1000);
  MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, all);
  if (sum != 1000L * size + (long)size * (size - 1) / 2) fail("sum over all");
  MPI_Comm_free(&all);
  return sum;
}

// All but the last child run the first program.
static int spawn(char **argv, int children, int apps, MPI_Comm *other)
{
  char *commands[] = {argv[0], argv[0]}, **arguments[] = {argv + 1, argv + 1};
  const int counts[] = {children - 1, 1};
  MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};

  if (apps == 1)
    return MPI_Comm_spawn(argv[0], argv + 1, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, other, MPI_ERRCODES_IGNORE);
  return MPI_Comm_spawn_multiple(2, commands, arguments, counts, infos, 0, MPI_COMM_WORLD, other, MPI_ERRCODES_IGNORE);
}

static int number_of_app(void)
{
  int *number, there;

  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &there);
  return there ? *number : -1;
}

int main(int argc, char **argv)
{
  const int children = argc > 1 ? atoi(argv[1]) : 2, times = argc > 2 ? atoi(argv[2]) : 2;
  const int pause_ms = argc > 3 ? atoi(argv[3]) : 0, apps = argc > 4 ? atoi(argv[4]) : 1;
  MPI_Comm parent;
  int rank, size;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) {
    int time = -1;

    if (size != children) fail("number of children");
    if (number_of_app() != (apps > 1 && rank == size - 1)) fail("MPI_APPNUM");
    MPI_Bcast(&time, 1, MPI_INT, 0, parent);
    printf("child %d of %d, time %d\n", rank, size, time);
    fflush(stdout);
    together(parent, 1, pause_ms);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
  }
  for (int time = 0; time < times; ++time) {
    MPI_Comm other;
    long sum;

    if (pause_ms) usleep((useconds_t)pause_ms * 1000);
    if (spawn(argv, children, apps, &other))
      fail("MPI_Comm_spawn");
    MPI_Bcast(&time, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, other);
    sum = together(other, 0, pause_ms);
    MPI_Comm_disconnect(&other);
    if (rank == 0) printf("time %d: %d parents, %d children, sum %ld\n", time, size, children, sum);
    fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
