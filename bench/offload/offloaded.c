// SPDX-License-Identifier: GPL-2.0-only
// offloaded BOOSTERS ROUNDS DIRECTORY: what resilience costs, as in the paper's table 2. Prints one line of milliseconds for each
// round:
//   alloc     deep_booster_alloc
//   plain     one task for each booster, without the clause recover, until taskwait returns
//   recover   the same with the clause
//   lost      the same, and the last booster ends right before its task does
//   free      deep_booster_free
// Each task adds to 1 KB. A file in DIRECTORY, which no recovery undoes, keeps a booster from ending twice in a round.
#include <croff.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kNumbers = 128, kMost = 64 };

struct values {
  char file[200];  // "": it does not end
};

static void add(void *data, void *const *regions)
{
  const struct values *values = data;
  double *x = regions[0];
  for (int i = 0; i < kNumbers; i++) x[i] += i;
  if (values->file[0] && open(values->file, O_CREAT | O_EXCL, 0600) >= 0) kill(getpid(), SIGKILL);
}

static void check(int error)
{
  if (error == CROFF_OK) return;
  fprintf(stderr, "offloaded: error %d: %s\n", error, croff_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static double x[kMost][kNumbers];

/* @param file of the booster that ends; NULL: none does. @return milliseconds */
static double tasks(MPI_Comm boosters, int n, int recover, const char *file)
{
  const double begin = MPI_Wtime();
  for (int i = 0; i < n; i++) {
    const croff_region region = {x[i], sizeof x[i], CROFF_INOUT};
    struct values values = {""};
    if (file && i == n - 1) strncpy(values.file, file, sizeof values.file - 1);
    check(croff_task(boosters, i, recover, add, &values, sizeof values, &region, 1));
  }
  check(croff_taskwait());
  return (MPI_Wtime() - begin) * 1e3;
}

int main(int argc, char **argv)
{
  MPI_Init(&argc, &argv);
  check(croff_init());
  const int n = argc > 3 ? atoi(argv[1]) : 0, rounds = argc > 3 ? atoi(argv[2]) : 0;
  if (n < 1 || n > kMost || rounds < 1) {
    fprintf(stderr, "usage: offloaded BOOSTERS ROUNDS DIRECTORY\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (int round = 0; round < rounds; round++) {
    MPI_Comm boosters;
    char file[200];
    snprintf(file, sizeof file, "%s/lost-%d-%d-%d", argv[3], (int) getpid(), n, round);
    double at = MPI_Wtime();
    check(deep_booster_alloc(MPI_COMM_SELF, n, 1, &boosters));
    const double alloc = (MPI_Wtime() - at) * 1e3;
    tasks(boosters, n, CROFF_NO_RECOVER, NULL);  // connects all of them
    const double plain = tasks(boosters, n, CROFF_NO_RECOVER, NULL), recover = tasks(boosters, n, CROFF_RECOVER, NULL),
                 lost = tasks(boosters, n, CROFF_RECOVER, file);
    at = MPI_Wtime();
    check(deep_booster_free(&boosters));
    printf("alloc %.2f plain %.2f recover %.2f lost %.2f free %.2f\n", alloc, plain, recover, lost, (MPI_Wtime() - at) * 1e3);
    fflush(stdout);
    unlink(file);
  }
  for (int i = 0; i < n; i++)
    for (int k = 0; k < kNumbers; k++)
      if (x[i][k] != 4.0 * rounds * k) {
        fprintf(stderr, "offloaded: booster %d: number %d is %g\n", i, k, x[i][k]);
        MPI_Abort(MPI_COMM_WORLD, 3);
      }
  MPI_Finalize();
  return 0;
}
