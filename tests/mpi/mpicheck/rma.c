// SPDX-License-Identifier: GPL-2.0-only
#include "check.h"

#include <stdlib.h>
#include <string.h>

enum { SLOT = 512, WIN = 2000, WORDS = 8 };

static void equal(uint64_t got, uint64_t wanted, const char *what)
{
  if (got != wanted) bad("%s: %llu instead of %llu", what, (unsigned long long) got, (unsigned long long) wanted);
  count_in(got);
}

/* Each rank puts into its own slot at every other rank; then each gets a slot from its neighbour. */
static void fences(MPI_Comm comm, long iteration)
{
  const int next = (rank + 1) % ranks;
  char *base, *mine = room(SLOT * ranks), got[SLOT];
  MPI_Win win;

  MPI_Win_allocate((MPI_Aint) SLOT * ranks, 1, MPI_INFO_NULL, comm, &base, &win);
  memset(base, 0, (size_t) SLOT * ranks);
  MPI_Win_fence(0, win);
  for (int to = 0; to < ranks; to++) {
    fill(mine + to * SLOT, SLOT, name_of(rank, to, WIN, iteration));
    MPI_Put(mine + to * SLOT, SLOT, MPI_BYTE, to, (MPI_Aint) SLOT * rank, SLOT, MPI_BYTE, win);
  }
  MPI_Win_fence(0, win);
  for (int from = 0; from < ranks; from++) verify(base + from * SLOT, SLOT, name_of(from, rank, WIN, iteration), "put");
  MPI_Win_fence(0, win);
  MPI_Get(got, SLOT, MPI_BYTE, next, (MPI_Aint) SLOT * rank, SLOT, MPI_BYTE, win);
  MPI_Win_fence(0, win);
  verify(got, SLOT, name_of(rank, next, WIN, iteration), "get");
  MPI_Win_free(&win);
  free(mine);
}

static void locks(MPI_Comm comm, long iteration)
{
  uint64_t *base = room(WORDS * sizeof *base), one = 1, old, wanted = 0, zero = 0, mine = rank + 1, seen;
  MPI_Win win;

  memset(base, 0, WORDS * sizeof *base);
  MPI_Win_create(base, WORDS * sizeof *base, sizeof *base, MPI_INFO_NULL, comm, &win);
  for (int to = 0; to < ranks; to++) {
    const uint64_t value = name_of(rank, to, WIN + 1, iteration) >> 8;

    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (to + rank) % ranks, 0, win);
    MPI_Accumulate(&value, 1, MPI_UINT64_T, (to + rank) % ranks, 1, 1, MPI_UINT64_T, MPI_SUM, win);
    MPI_Win_unlock((to + rank) % ranks, win);
    MPI_Win_lock(MPI_LOCK_SHARED, (to + rank) % ranks, 0, win);
    MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, (to + rank) % ranks, 2, MPI_SUM, win);
    MPI_Win_unlock((to + rank) % ranks, win);
    if (old >= (uint64_t) ranks) bad("fetch_and_op: %llu", (unsigned long long) old);
  }
  /* Exactly one rank finds the zero of rank 0. */
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
  MPI_Compare_and_swap(&mine, &zero, &seen, MPI_UINT64_T, 0, 3, win);
  MPI_Win_unlock(0, win);
  old = seen == 0;
  MPI_Allreduce(MPI_IN_PLACE, &old, 1, MPI_UINT64_T, MPI_SUM, comm);
  equal(old, 1, "compare_and_swap");
  MPI_Barrier(comm);
  for (int from = 0; from < ranks; from++)
    wanted += name_of(from, (rank - from + ranks) % ranks, WIN + 1, iteration) >> 8;
  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
  equal(base[1], wanted, "accumulate");
  equal(base[2], ranks, "fetch_and_op");
  MPI_Win_unlock(rank, win);
  MPI_Win_free(&win);
  free(base);
}

/* Post, start, complete, wait: from each rank to the next. */
static void exposure(MPI_Comm comm, long iteration)
{
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  char *base, *mine;
  const size_t bytes = 1 + length_of(name_of(0, 0, WIN + 2, iteration)) / 8;
  MPI_Group all, target, origin;
  MPI_Win win;

  MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, comm, &base, &win);
  mine = room(bytes);
  fill(mine, bytes, name_of(rank, next, WIN + 2, iteration));
  MPI_Comm_group(comm, &all);
  MPI_Group_incl(all, 1, &next, &target);
  MPI_Group_incl(all, 1, &previous, &origin);
  MPI_Win_post(origin, 0, win);
  MPI_Win_start(target, 0, win);
  MPI_Put(mine, bytes, MPI_BYTE, next, 0, bytes, MPI_BYTE, win);
  MPI_Win_complete(win);
  MPI_Win_wait(win);
  verify(base, bytes, name_of(previous, rank, WIN + 2, iteration), "exposed window");
  MPI_Group_free(&origin);
  MPI_Group_free(&target);
  MPI_Group_free(&all);
  MPI_Win_free(&win);
  free(mine);
}

void rma(MPI_Comm comm, long iteration)
{
  fences(comm, iteration);
  locks(comm, iteration);
  exposure(comm, iteration);
}
