// SPDX-License-Identifier: GPL-2.0-only
// mpi_sessions [TIMES]: without MPI_Init, makes a session, a communicator of all of its processes and one of every second
// process, and computes sums over both, TIMES times.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static long sum_over(MPI_Group group, const char *tag)
{
  MPI_Comm comm;
  int rank;
  long mine, sum = 0;

  if (MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm)) exit(3);
  MPI_Comm_rank(comm, &rank);
  mine = rank + 1;
  MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, comm);
  MPI_Comm_free(&comm);
  return sum;
}

int main(int argc, char **argv)
{
  const int times = argc > 1 ? atoi(argv[1]) : 2;

  for (int time = 0; time < times; ++time) {
    MPI_Session session;
    MPI_Group all, half;
    int rank, size;
    long sum, sum_half = 0;

    if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session)) return 1;
    if (MPI_Group_from_session_pset(session, "mpi://WORLD", &all)) return 2;
    MPI_Group_rank(all, &rank);
    MPI_Group_size(all, &size);
    sum = sum_over(all, "all");
    if (rank % 2 == 0) {
      int range[1][3] = {{0, size - 1, 2}};

      MPI_Group_range_incl(all, 1, range, &half);
      sum_half = sum_over(half, "half");
      MPI_Group_free(&half);
    }
    MPI_Group_free(&all);
    MPI_Session_finalize(&session);
    if (sum != (long)size * (size + 1) / 2) return 4;
    if (rank % 2 == 0 && sum_half != (long)((size + 1) / 2) * ((size + 1) / 2 + 1) / 2) return 5;
    if (rank == 0) printf("session %d: %d processes, sums %ld and %ld\n", time, size, sum, sum_half);
  }
  return 0;
}
