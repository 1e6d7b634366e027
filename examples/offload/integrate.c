/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Boosters integrate parts of 4 / (1 + x²) from 0 to 1. The sum of the parts is pi.
 *
 *   integrate [BOOSTERS [PARTS]]
 *
 * A part is a task. If a booster is lost, its group is replaced, and the tasks that were lost with it are executed again.
 * The result is the same, to the last bit: the master adds the parts in the same order.
 */
#include <croff.h>
#include <stdio.h>
#include <stdlib.h>

/* The values of a task. They are copied when it is submitted, as bytes: no pointers. */
struct part {
  double from, to;
  int steps;
};

/* A task, executed by a booster. What it computes must follow from its values and regions only. */
static void integrate(void *values, void *const *regions)
{
  const struct part *part = values;
  double *sum = regions[0]; /* in the booster; it is copied to the master's region after the task */
  const double width = (part->to - part->from) / part->steps;

  for (int i = 0; i < part->steps; i++) {
    const double x = part->from + (i + 0.5) * width;
    *sum += width * 4 / (1 + x * x); /* an OUT region begins with zeros */
  }
}

static void check(int error)
{
  if (error == CROFF_OK) return;
  fprintf(stderr, "integrate: error %d: %s\n", error, croff_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
  MPI_Comm boosters;
  croff_counts counts;
  double *sums, pi = 0;

  MPI_Init(&argc, &argv);
  check(croff_init()); /* boosters do not return from here */
  const int wanted = argc > 1 ? atoi(argv[1]) : 2, parts = argc > 2 ? atoi(argv[2]) : 20;
  if (wanted < 1 || parts < 1 || !(sums = calloc(parts, sizeof *sums))) {
    fprintf(stderr, "usage: integrate [BOOSTERS [PARTS]]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  /* MPI_COMM_SELF: this process is the only master of the group. The launcher places the boosters. */
  check(deep_booster_alloc(MPI_COMM_SELF, 1, wanted, &boosters));
  for (int i = 0; i < parts; i++) {
    const struct part part = {(double) i / parts, (i + 1.0) / parts, 100000};
    const croff_region region = {&sums[i], sizeof sums[i], CROFF_OUT};
    check(croff_task(boosters, i % wanted, CROFF_RECOVER, integrate, &part, sizeof part, &region, 1));
  }
  check(croff_taskwait()); /* before this the sums must not be read */
  for (int i = 0; i < parts; i++) pi += sums[i];
  check(deep_booster_free(&boosters));
  croff_count(&counts);
  printf("pi is %.15f\n", pi);
  fprintf(stderr, "integrate: %lu tasks, %lu executions, %lu groups replaced\n", counts.tasks, counts.executions, counts.replacements);
  free(sums);
  MPI_Finalize();
  return 0;
}
