/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Heat flows along a rod. Each rank has a block of it. Lost ranks are replaced by spawned ones.
 *
 *   replace [STEPS [LOST]]       LOST: this rank kills itself in the middle, to show it
 *
 *   crrun --recover ulfm --oversubscribe -n 4 ./replace 400 2
 *
 * Every 20 steps each rank keeps its block, and a copy of its left neighbour's. After a loss all go back to what they have
 * kept, and the right neighbour of a lost rank gives the copy to the new one. So the program survives any losses, one after
 * another or at once, but those of two neighbours at once. A loss while others are being replaced ends it.
 */
#include <mpi.h>

#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBlock = 20000, kEvery = 20 };

struct state {
  int step;
  double block[kBlock];
};

static struct state now, kept, kept_of_left;
static MPI_Comm comm; /* all ranks, in the order of the blocks */
static int me = -1, size;

static void need(int error, const char *what)
{
  if (error == MPI_SUCCESS) return;
  fprintf(stderr, "replace: %s has failed\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int left(void) { return (me + size - 1) % size; }
static int right(void) { return (me + 1) % size; }

/*
 * All ranks keep their state, or none does. A rank comes here also after an error: all must take part in the agreement.
 * @param good this rank has met no error
 * @return 1 if all keep it
 */
static int keep(int good)
{
  static struct state of_left;

  if (good)
    good = MPI_Sendrecv(&now, sizeof now, MPI_BYTE, right(), 1, &of_left, sizeof of_left, MPI_BYTE, left(), 1, comm,
                        MPI_STATUS_IGNORE) == MPI_SUCCESS;
  if (!good) MPIX_Comm_revoke(comm); /* nobody waits any more for a message of this rank */
  if (MPIX_Comm_agree(comm, &good) != MPI_SUCCESS || !good) return 0;
  kept = now;
  kept_of_left = of_left;
  return 1;
}

/* @return an error of MPI */
static int advance(void)
{
  static double next[kBlock];
  double from_left, from_right;
  const double *u = now.block;
  int error;

  error = MPI_Sendrecv(&u[0], 1, MPI_DOUBLE, left(), 2, &from_right, 1, MPI_DOUBLE, right(), 2, comm, MPI_STATUS_IGNORE);
  if (error == MPI_SUCCESS)
    error = MPI_Sendrecv(&u[kBlock - 1], 1, MPI_DOUBLE, right(), 3, &from_left, 1, MPI_DOUBLE, left(), 3, comm, MPI_STATUS_IGNORE);
  if (error != MPI_SUCCESS) return error;
  for (int i = 0; i < kBlock; i++)
    next[i] = 0.25 * (i > 0 ? u[i - 1] : from_left) + 0.5 * u[i] + 0.25 * (i + 1 < kBlock ? u[i + 1] : from_right);
  memcpy(now.block, next, sizeof next);
  now.step++;
  return MPI_SUCCESS;
}

/*
 * Old and new ranks: give the new ones their numbers and blocks.
 * @param all everybody; the new ones have me == -1
 */
static void arrange(MPI_Comm all)
{
  int here, mine = -1;

  MPI_Comm_size(all, &size);
  MPI_Comm_rank(all, &here);
  int numbers[size], lost[size], count = 0, newest = 0;
  need(MPI_Allgather(&me, 1, MPI_INT, numbers, 1, MPI_INT, all), "MPI_Allgather");
  for (int number = 0; number < size; number++) {
    int there = 0;
    for (int i = 0; i < size; i++) there |= numbers[i] == number;
    if (!there) lost[count++] = number;
  }
  /* The first of the new ones takes the first number that is missing, and so on. */
  for (int i = 0; i < size; i++) {
    if (numbers[i] >= 0) continue;
    if (i == here) mine = lost[newest];
    newest++;
  }
  const int is_new = mine >= 0;
  if (is_new) me = mine;
  need(MPI_Comm_split(all, 0, me, &comm), "MPI_Comm_split");
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < count; k++)
      if (lost[k] == (lost[i] + 1) % size) need(MPI_ERR_OTHER, "a block and its copy are lost: replacing two neighbours");
    if (me == (lost[i] + 1) % size)
      need(MPI_Send(&kept_of_left, sizeof kept_of_left, MPI_BYTE, lost[i], 4, comm), "MPI_Send");
    if (me == lost[i])
      need(MPI_Recv(&kept, sizeof kept, MPI_BYTE, right(), 4, comm, MPI_STATUS_IGNORE), "MPI_Recv");
  }
  now = kept; /* all go back */
  need(keep(1) ? MPI_SUCCESS : MPI_ERR_OTHER, "keeping the state"); /* the new ones have no copies yet */
  if (me == 0) fprintf(stderr, "replace: %d of %d ranks are new; all are back at step %d\n", count, size, now.step);
}

/* Those that are left: spawn what is missing. */
static void replace_lost(char **argv)
{
  MPI_Comm small, inter, all;
  int alive;

  MPIX_Comm_revoke(comm);
  need(MPIX_Comm_shrink(comm, &small), "MPIX_Comm_shrink");
  MPI_Comm_free(&comm);
  MPI_Comm_set_errhandler(small, MPI_ERRORS_RETURN);
  MPI_Comm_size(small, &alive);
  need(MPI_Comm_spawn(argv[0], argv + 1, size - alive, MPI_INFO_NULL, 0, small, &inter, MPI_ERRCODES_IGNORE), "MPI_Comm_spawn");
  need(MPI_Intercomm_merge(inter, 0, &all), "MPI_Intercomm_merge");
  arrange(all);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&inter);
  MPI_Comm_free(&small);
}

/* A new rank. */
static void join(MPI_Comm parent)
{
  MPI_Comm all;

  need(MPI_Intercomm_merge(parent, 1, &all), "MPI_Intercomm_merge");
  arrange(all);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&parent);
}

static void begin(void)
{
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN); /* else the first failure ends the program */
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &size);
  for (int i = 0; i < kBlock; i++) now.block[i] = (i + me * kBlock) % 1000;
  need(keep(1) ? MPI_SUCCESS : MPI_ERR_OTHER, "keeping the first state");
}

int main(int argc, char **argv)
{
  MPI_Comm parent;
  double sum = 0, *blocks = NULL;

  MPI_Init(&argc, &argv);
  const int steps = argc > 1 ? atoi(argv[1]) / kEvery * kEvery : 200, lost = argc > 2 ? atoi(argv[2]) : -1;
  MPI_Comm_get_parent(&parent);
  const int is_new = parent != MPI_COMM_NULL;
  if (is_new)
    join(parent);
  else
    begin();
  while (now.step < steps) {
    int good = 1;
    for (int i = 0; i < kEvery && good; i++) {
      if (me == lost && !is_new && now.step == steps / 2) raise(SIGKILL);
      good = advance() == MPI_SUCCESS;
    }
    if (!keep(good)) replace_lost(argv);
  }
  if (me == 0) blocks = malloc(sizeof now.block * size);
  need(MPI_Gather(now.block, kBlock, MPI_DOUBLE, blocks, kBlock, MPI_DOUBLE, 0, comm), "MPI_Gather");
  for (long i = 0; me == 0 && i < (long) size * kBlock; i++) sum += i * blocks[i];
  if (me == 0) printf("after %d steps the weighted sum is %.17g\n", now.step, sum);
  free(blocks);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
