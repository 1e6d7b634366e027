// SPDX-License-Identifier: GPL-2.0-only
#include "check.h"

#include <stdlib.h>
#include <unistd.h>

enum { STORM = 4, TAG_RING = 100, TAG_STORM = 200, TAG_SYNC = 300, TAG_FIXED = 400, TAG_PARTS = 500, PARTS = 4, TAG_LATE = 600 };
/* Messages that Open MPI sends without asking the receiver. */
enum { LATE_MESSAGES = 16, LATE_BYTES = 60000 };

void ring(MPI_Comm comm, long iteration)
{
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  const uint64_t out = name_of(rank, to, TAG_RING, iteration), in = name_of(from, rank, TAG_RING, iteration);
  const size_t out_bytes = length_of(out), in_bytes = length_of(in);
  char *a = room(out_bytes), *b = room(in_bytes);
  MPI_Status status;
  int got;

  fill(a, out_bytes, out);
  MPI_Sendrecv(a, out_bytes, MPI_BYTE, to, TAG_RING, b, in_bytes, MPI_BYTE, from, TAG_RING, comm, &status);
  MPI_Get_count(&status, MPI_BYTE, &got);
  if ((size_t) got != in_bytes) bad("ring: %d bytes instead of %zu", got, in_bytes);
  verify(b, in_bytes, in, "ring");
  free(a);
  free(b);
}

/*
 * Every rank sends to every other rank. Messages are received in the order of arrival, by probing for any source. A
 * separate communicator is needed: otherwise a wildcard would match what a faster rank sends afterwards.
 */
static void storm(MPI_Comm all, long iteration)
{
  const int count = STORM * (ranks - 1);
  MPI_Request *requests = room(count * sizeof *requests);
  char **data = room(count * sizeof *data);
  MPI_Comm comm;
  int n = 0;

  MPI_Comm_dup(all, &comm);
  for (int k = 0; k < STORM; k++)
    for (int d = 1; d < ranks; d++, n++) {
      const int to = (rank + d) % ranks;
      const uint64_t name = name_of(rank, to, TAG_STORM + k, iteration);
      const size_t bytes = length_of(name);

      data[n] = room(bytes);
      fill(data[n], bytes, name);
      MPI_Isend(data[n], bytes, MPI_BYTE, to, TAG_STORM + k, comm, &requests[n]);
    }
  for (int i = 0; i < count; i++) {
    MPI_Status status;
    MPI_Message message;
    uint64_t name;
    char *in;
    int bytes;

    /* Receive half of them by tag, so that some messages wait as unexpected. */
    MPI_Mprobe(MPI_ANY_SOURCE, i < count / 2 ? TAG_STORM + i * 2 * STORM / count / 2 : MPI_ANY_TAG, comm, &message,
               &status);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    name = name_of(status.MPI_SOURCE, rank, status.MPI_TAG, iteration);
    if ((size_t) bytes != length_of(name)) bad("storm: %d bytes instead of %zu", bytes, length_of(name));
    in = room(bytes);
    MPI_Mrecv(in, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    verify(in, bytes, name, "storm");
    free(in);
  }
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
  MPI_Comm_free(&comm);
  for (int i = 0; i < count; i++) free(data[i]);
  free(data);
  free(requests);
}

static void synchronous(MPI_Comm comm, long iteration)
{
  const int partner = rank ^ 1;
  uint64_t out, in;
  char *data;

  if (partner >= ranks) return;
  out = name_of(rank, partner, TAG_SYNC, iteration);
  in = name_of(partner, rank, TAG_SYNC, iteration);
  data = room(options.size);
  for (int turn = 0; turn < 2; turn++) {
    if ((rank & 1) == turn) {
      fill(data, length_of(out), out);
      MPI_Ssend(data, length_of(out), MPI_BYTE, partner, TAG_SYNC, comm);
    } else {
      MPI_Recv(data, options.size, MPI_BYTE, partner, TAG_SYNC, comm, MPI_STATUS_IGNORE);
      verify(data, length_of(in), in, "ssend");
    }
  }
  free(data);
}

static void persistent(MPI_Comm comm, long iteration)
{
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  const size_t bytes = length_of(name_of(0, 0, TAG_FIXED, iteration));
  char *a = room(bytes), *b = room(bytes);
  MPI_Request requests[2];

  MPI_Send_init(a, bytes, MPI_BYTE, to, TAG_FIXED, comm, &requests[0]);
  MPI_Recv_init(b, bytes, MPI_BYTE, from, TAG_FIXED, comm, &requests[1]);
  for (int k = 0; k < 3; k++) {
    fill(a, bytes, name_of(rank, to, TAG_FIXED + k, iteration));
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    verify(b, bytes, name_of(from, rank, TAG_FIXED + k, iteration), "persistent request");
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  free(a);
  free(b);
}

static void partitioned(MPI_Comm comm, long iteration)
{
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  const size_t bytes = length_of(name_of(0, 0, TAG_PARTS, iteration)) / PARTS + 1;
  char *a = room(PARTS * bytes), *b = room(PARTS * bytes);
  MPI_Request requests[2];

  MPI_Psend_init(a, PARTS, bytes, MPI_BYTE, to, TAG_PARTS, comm, MPI_INFO_NULL, &requests[0]);
  MPI_Precv_init(b, PARTS, bytes, MPI_BYTE, from, TAG_PARTS, comm, MPI_INFO_NULL, &requests[1]);
  for (int k = 0; k < 2; k++) {
    MPI_Startall(2, requests);
    for (int p = PARTS; p-- > 0;) {
      fill(a + p * bytes, bytes, name_of(rank, to, TAG_PARTS + 10 * k + p, iteration));
      MPI_Pready(p, requests[0]);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int p = 0; p < PARTS; p++)
      verify(b + p * bytes, bytes, name_of(from, rank, TAG_PARTS + 10 * k + p, iteration), "partition");
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  free(a);
  free(b);
}

void p2p(MPI_Comm comm, long iteration)
{
  ring(comm, iteration);
  storm(comm, iteration);
  synchronous(comm, iteration);
  persistent(comm, iteration);
  if (ranks > 1 && iteration % 4 == 0) partitioned(comm, iteration);
}

/* Even ranks send, odd ranks sleep before they receive. */
void late(MPI_Comm comm, long iteration)
{
  const int partner = rank ^ 1;
  MPI_Request requests[LATE_MESSAGES];
  char *data;

  MPI_Barrier(comm); /* the connections are there */
  if (partner >= ranks) return;
  data = room((size_t) LATE_MESSAGES * LATE_BYTES);
  for (int k = 0; k < LATE_MESSAGES && !(rank & 1); k++) {
    char *message = data + (size_t) k * LATE_BYTES;

    fill(message, LATE_BYTES, name_of(rank, partner, TAG_LATE + k, iteration));
    MPI_Isend(message, LATE_BYTES, MPI_BYTE, partner, TAG_LATE + k, comm, &requests[k]);
  }
  if (!(rank & 1)) {
    MPI_Waitall(LATE_MESSAGES, requests, MPI_STATUSES_IGNORE);
  } else {
    usleep((useconds_t) options.compute_ms * 1000);
    for (int k = 0; k < LATE_MESSAGES; k++) {
      MPI_Recv(data, LATE_BYTES, MPI_BYTE, partner, TAG_LATE + k, comm, MPI_STATUS_IGNORE);
      verify(data, LATE_BYTES, name_of(partner, rank, TAG_LATE + k, iteration), "late");
    }
  }
  free(data);
}
