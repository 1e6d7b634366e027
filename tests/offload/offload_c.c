// SPDX-License-Identifier: GPL-2.0-only
// The program of docs/offload.md: the sum of squares, in parts. With an argument "die" the first booster dies in its task.
#include <croff.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kParts = 4, kNumbers = 1000 };

static int dies;

static void sum_of_squares(void *values, void *const *regions)
{
  const int n = *(const int *)values;
  const double *x = regions[0];
  double *sum = regions[1];
  int i;
  if (dies && open("first-c", O_CREAT | O_EXCL, 0600) >= 0) raise(SIGKILL);
  for (i = 0; i < n; i++) *sum += x[i] * x[i];
}

static void check(int error)
{
  if (error == CROFF_OK) return;
  fprintf(stderr, "error %d: %s\n", error, croff_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
  MPI_Comm boosters;
  static double x[kParts][kNumbers];
  double sums[kParts] = {0}, expected = 0, sum = 0;
  const int n = kNumbers;
  int i, j;

  MPI_Init(&argc, &argv);
  dies = argc > 1 && strcmp(argv[1], "die") == 0;
  check(croff_init());  // boosters do not return from here
  for (i = 0; i < kParts; i++)
    for (j = 0; j < kNumbers; j++) {
      x[i][j] = i + j;
      expected += x[i][j] * x[i][j];
    }
  check(deep_booster_alloc(MPI_COMM_SELF, 2, 2, &boosters));
  for (i = 0; i < kParts; i++) {
    const croff_region regions[] = {{x[i], sizeof x[i], CROFF_IN}, {&sums[i], sizeof sums[i], CROFF_INOUT}};
    check(croff_task(boosters, i, CROFF_RECOVER, sum_of_squares, &n, sizeof n, regions, 2));
  }
  check(croff_taskwait());
  for (i = 0; i < kParts; i++) sum += sums[i];
  check(deep_booster_free(&boosters));
  MPI_Finalize();
  if (sum != expected) return 1;
  printf("offload_c: done: the sum is %.0f\n", sum);
  return 0;
}
