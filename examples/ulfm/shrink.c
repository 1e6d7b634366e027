/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Counts primes. The ranks share each range of numbers; when some are lost, the others share it anew, and go on.
 *
 *   shrink [RANGES [LOST]]       LOST: this rank kills itself in the middle, to show it
 *
 *   crrun --recover ulfm --oversubscribe -n 4 ./shrink 60 2
 */
#include <mpi.h>

#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRange = 50000 };

static int is_prime(long n)
{
  if (n < 2) return 0;
  for (long d = 2; d * d <= n; d++)
    if (n % d == 0) return 0;
  return 1;
}

/* Take the lost ranks out of the communicator. Further ones may be lost meanwhile: then the next call of MPI says so. */
static void go_on_without_lost(MPI_Comm *comm)
{
  MPI_Comm smaller;
  int rank, size;

  MPIX_Comm_revoke(*comm); /* ranks that still wait for others in it get MPI_ERR_REVOKED */
  MPIX_Comm_shrink(*comm, &smaller);
  MPI_Comm_free(comm);
  *comm = smaller;
  MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(*comm, &rank);
  MPI_Comm_size(*comm, &size);
  if (rank == 0) fprintf(stderr, "shrink: %d ranks go on\n", size);
}

/* The primes of a range, counted by all. @return 1 if all ranks have the sum, 0 if none may use it */
static int count(MPI_Comm comm, long first, long *sum)
{
  int rank, size, error, good;
  long mine = 0;

  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  for (long n = first + rank; n < first + kRange; n += size) mine += is_prime(n);
  error = MPI_Allreduce(&mine, sum, 1, MPI_LONG, MPI_SUM, comm);
  if (error != MPI_SUCCESS) MPIX_Comm_revoke(comm);
  /* Some ranks may have got the sum, others an error. The agreement has the same result for all. */
  good = error == MPI_SUCCESS;
  return MPIX_Comm_agree(comm, &good) == MPI_SUCCESS && good;
}

int main(int argc, char **argv)
{
  MPI_Comm comm; /* in place of MPI_COMM_WORLD, which cannot shrink */
  long primes = 0, sum;
  int me, rank;

  MPI_Init(&argc, &argv);
  const int ranges = argc > 1 ? atoi(argv[1]) : 40, lost = argc > 2 ? atoi(argv[2]) : -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN); /* else the first failure ends the program */
  for (int range = 0; range < ranges;) {
    if (me == lost && range == ranges / 2) raise(SIGKILL);
    if (count(comm, (long) range * kRange, &sum)) {
      primes += sum;
      range++;
    } else {
      go_on_without_lost(&comm); /* and count this range again */
    }
  }
  MPI_Comm_rank(comm, &rank);
  if (rank == 0) printf("%ld primes below %ld\n", primes, (long) ranges * kRange);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
