/* SPDX-License-Identifier: GPL-2.0-only */
/** @file @brief mpicheck: an MPI program that verifies all data it receives. Its result depends only on its arguments. */
#ifndef MPICHECK_H
#define MPICHECK_H 1

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

struct options {
  uint64_t seed;
  long iterations; /**< 0: as many as fit in `seconds` */
  double seconds;
  size_t size; /**< of the largest messages */
  int compute_ms, pace_ms, threads, progress;
  int linger;
  const char *hold; /**< a file: run while it exists; NULL: no such limit */
  unsigned phases; /**< 1 << enum phase */
};

enum phase { P2P, COLL, RMA, THREADS, LATE, COMPUTE, RING, PHASES };

extern struct options options;
extern int rank, ranks;

/** Report the error with its source line and end the whole job. */
void bad(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

uint64_t mix(uint64_t a, uint64_t b);
/** Name of a message: its content is generated from the name. */
uint64_t name_of(int from, int to, int tag, long iteration);
/** Length of a message in bytes, 0 to options.size; most are short. */
size_t length_of(uint64_t name);
void fill(void *data, size_t bytes, uint64_t name);
/** Compare with the content that fill() generated, and add it to the checksum. Callable from any thread. */
void verify(const void *data, size_t bytes, uint64_t name, const char *what);
/** Add a received and verified number to the checksum. The order does not matter. */
void count_in(uint64_t value);
uint64_t checksum(void);
/** malloc() that ends the job on failure. */
void *room(size_t bytes);

void p2p(MPI_Comm comm, long iteration);
/** Exchange a message with the two neighbours only. */
void ring(MPI_Comm comm, long iteration);
/** Send to ranks that are outside of MPI for compute_ms. */
void late(MPI_Comm comm, long iteration);
void coll(MPI_Comm comm, long iteration);
void rma(MPI_Comm comm, long iteration);
void threads_begin(MPI_Comm comm);
void threads(long iteration);
void threads_end(void);

#endif
