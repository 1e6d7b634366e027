// SPDX-License-Identifier: GPL-2.0-only
#include "check.h"

#include <pthread.h>
#include <stdlib.h>

enum { TAG = 3000, ROUNDS = 4 };

struct worker {
  MPI_Comm comm;
  pthread_t thread;
  long iteration;
  int index;
};

static struct worker *workers;

void threads_begin(MPI_Comm comm)
{
  workers = room(options.threads * sizeof *workers);
  for (int i = 0; i < options.threads; i++) {
    workers[i].index = i;
    MPI_Comm_dup(comm, &workers[i].comm);
  }
}

void threads_end(void)
{
  for (int i = 0; i < options.threads; i++) MPI_Comm_free(&workers[i].comm);
  free(workers);
}

static void *work(void *argument)
{
  const struct worker *w = argument;
  const int tag = TAG + 10 * w->index;

  for (int k = 0; k < ROUNDS; k++) {
    const int to = (rank + 1 + k) % ranks, from = (rank + 2 * ranks - 1 - k % ranks) % ranks;
    const uint64_t out = name_of(rank, to, tag + k, w->iteration), in = name_of(from, rank, tag + k, w->iteration);
    char *a = room(length_of(out)), *b = room(length_of(in));
    uint64_t sum, wanted = 0, mine = name_of(rank, k, tag, w->iteration);

    fill(a, length_of(out), out);
    MPI_Sendrecv(a, length_of(out), MPI_BYTE, to, tag + k, b, length_of(in), MPI_BYTE, from, tag + k, w->comm,
                 MPI_STATUS_IGNORE);
    verify(b, length_of(in), in, "message between threads");
    MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, w->comm);
    for (int r = 0; r < ranks; r++) wanted += name_of(r, k, tag, w->iteration);
    if (sum != wanted) bad("allreduce of threads %d", w->index);
    count_in(sum);
    free(a);
    free(b);
  }
  return NULL;
}

void threads(long iteration)
{
  for (int i = 0; i < options.threads; i++) {
    workers[i].iteration = iteration;
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) bad("no thread could be started");
  }
  for (int i = 0; i < options.threads; i++) pthread_join(workers[i].thread, NULL);
}
