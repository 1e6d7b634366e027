// SPDX-License-Identifier: GPL-2.0-only
#include "check.h"

#include <stdlib.h>
#include <string.h>

enum { BCAST = 1000, GATHER, SCATTER, ALLGATHER, ALLTOALL, ALLTOALLV, NUMBERS, IBCAST, IALLTOALL };

static void equal(uint64_t got, uint64_t wanted, const char *what)
{
  if (got != wanted) bad("%s: %llx instead of %llx", what, (unsigned long long) got, (unsigned long long) wanted);
  count_in(got);
}

static uint64_t number(int of, int k, long iteration)
{
  return name_of(of, k, NUMBERS, iteration);
}

static void broadcast(MPI_Comm comm, int me, int size, long iteration, int nonblocking)
{
  const int root = iteration % size, tag = nonblocking ? IBCAST : BCAST;
  const uint64_t name = name_of(root, -1, tag, iteration);
  const size_t bytes = length_of(name);
  char *data = room(bytes);
  MPI_Request request;

  memset(data, 0, bytes);
  if (me == root) fill(data, bytes, name);
  if (nonblocking) {
    MPI_Ibcast(data, bytes, MPI_BYTE, root, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    MPI_Bcast(data, bytes, MPI_BYTE, root, comm);
  }
  verify(data, bytes, name, nonblocking ? "ibcast" : "bcast");
  free(data);
}

static void gather_scatter(MPI_Comm comm, int me, int size, long iteration)
{
  const int root = (iteration + 1) % size;
  const size_t bytes = length_of(name_of(0, 0, GATHER, iteration)) / size + 3;
  char *mine = room(bytes), *all = room(bytes * size);

  fill(mine, bytes, name_of(me, root, GATHER, iteration));
  MPI_Gather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, root, comm);
  for (int r = 0; me == root && r < size; r++)
    verify(all + r * bytes, bytes, name_of(r, root, GATHER, iteration), "gather");
  for (int r = 0; me == root && r < size; r++) fill(all + r * bytes, bytes, name_of(root, r, SCATTER, iteration));
  MPI_Scatter(all, bytes, MPI_BYTE, mine, bytes, MPI_BYTE, root, comm);
  verify(mine, bytes, name_of(root, me, SCATTER, iteration), "scatter");
  fill(mine, bytes, name_of(me, -1, ALLGATHER, iteration));
  MPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm);
  for (int r = 0; r < size; r++) verify(all + r * bytes, bytes, name_of(r, -1, ALLGATHER, iteration), "allgather");
  free(mine);
  free(all);
}

static void all_to_all(MPI_Comm comm, int me, int size, long iteration, int nonblocking)
{
  const int tag = nonblocking ? IALLTOALL : ALLTOALL;
  const size_t bytes = length_of(name_of(0, 0, tag, iteration)) / size + 1;
  char *out = room(bytes * size), *in = room(bytes * size);
  MPI_Request request;

  for (int r = 0; r < size; r++) fill(out + r * bytes, bytes, name_of(me, r, tag, iteration));
  if (nonblocking) {
    MPI_Ialltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, comm);
  }
  for (int r = 0; r < size; r++)
    verify(in + r * bytes, bytes, name_of(r, me, tag, iteration), nonblocking ? "ialltoall" : "alltoall");
  free(out);
  free(in);
}

static void all_to_all_v(MPI_Comm comm, int me, int size, long iteration)
{
  int *out_n = room(4 * size * sizeof *out_n), *out_at = out_n + size, *in_n = out_n + 2 * size;
  int *in_at = out_n + 3 * size;
  int out_all = 0, in_all = 0;
  char *out, *in;

  for (int r = 0; r < size; r++) {
    out_n[r] = length_of(name_of(me, r, ALLTOALLV, iteration)) / 4;
    in_n[r] = length_of(name_of(r, me, ALLTOALLV, iteration)) / 4;
    out_at[r] = out_all;
    in_at[r] = in_all;
    out_all += out_n[r];
    in_all += in_n[r];
  }
  out = room(out_all);
  in = room(in_all);
  for (int r = 0; r < size; r++) fill(out + out_at[r], out_n[r], name_of(me, r, ALLTOALLV, iteration));
  MPI_Alltoallv(out, out_n, out_at, MPI_BYTE, in, in_n, in_at, MPI_BYTE, comm);
  for (int r = 0; r < size; r++) verify(in + in_at[r], in_n[r], name_of(r, me, ALLTOALLV, iteration), "alltoallv");
  free(out);
  free(in);
  free(out_n);
}

static void reductions(MPI_Comm comm, int me, int size, long iteration)
{
  const int n = 1 + length_of(name_of(0, 0, NUMBERS, iteration)) / 64, root = iteration % size;
  uint64_t *mine = room(n * size * sizeof *mine), *result = room(n * size * sizeof *result), last = 0;
  MPI_Request request;

  for (int k = 0; k < n * size; k++) mine[k] = number(me, k, iteration);
  MPI_Allreduce(mine, result, n, MPI_UINT64_T, MPI_SUM, comm);
  for (int k = 0; k < n; k++) {
    uint64_t sum = 0;
    for (int r = 0; r < size; r++) sum += number(r, k, iteration);
    equal(result[k], sum, "allreduce");
  }
  MPI_Reduce(mine, result, n, MPI_UINT64_T, MPI_BXOR, root, comm);
  for (int k = 0; me == root && k < n; k++) {
    uint64_t x = 0;
    for (int r = 0; r < size; r++) x ^= number(r, k, iteration);
    equal(result[k], x, "reduce");
  }
  MPI_Iallreduce(mine, result, n, MPI_UINT64_T, MPI_MAX, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int k = 0; k < n; k++) {
    uint64_t max = 0;
    for (int r = 0; r < size; r++) max = number(r, k, iteration) > max ? number(r, k, iteration) : max;
    equal(result[k], max, "iallreduce");
  }
  MPI_Reduce_scatter_block(mine, result, n, MPI_UINT64_T, MPI_SUM, comm);
  for (int k = 0; k < n; k++) {
    uint64_t sum = 0;
    for (int r = 0; r < size; r++) sum += number(r, me * n + k, iteration);
    equal(result[k], sum, "reduce_scatter_block");
  }
  MPI_Scan(mine, result, 1, MPI_UINT64_T, MPI_SUM, comm);
  for (int r = 0; r <= me; r++) last += number(r, 0, iteration);
  equal(result[0], last, "scan");
  MPI_Exscan(mine, result, 1, MPI_UINT64_T, MPI_SUM, comm);
  if (me) equal(result[0], last - number(me, 0, iteration), "exscan");
  free(mine);
  free(result);
}

static void all(MPI_Comm comm, long iteration)
{
  MPI_Request request;
  int me, size;

  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &size);
  MPI_Barrier(comm);
  broadcast(comm, me, size, iteration, 0);
  broadcast(comm, me, size, iteration, 1);
  gather_scatter(comm, me, size, iteration);
  all_to_all(comm, me, size, iteration, 0);
  all_to_all(comm, me, size, iteration, 1);
  all_to_all_v(comm, me, size, iteration);
  reductions(comm, me, size, iteration);
  MPI_Ibarrier(comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void coll(MPI_Comm comm, long iteration)
{
  MPI_Comm half, copy;

  all(comm, iteration);
  if (iteration % 3) return;
  MPI_Comm_split(comm, rank & 1, -rank, &half);
  all(half, iteration);
  MPI_Comm_dup(half, &copy);
  all(copy, iteration);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&half);
}
