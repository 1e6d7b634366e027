// SPDX-License-Identifier: GPL-2.0-only
// mpi_ring ROUNDS [PAUSE_US [STATUS [abort|keep|copy|ask]]]: numbers go around the ring and are verified; each round ends with a sum
// over all ranks. Rank 0 prints every tenth round, and the total at the end. With keep, each rank counts its rounds in kept
// memory, which no rollback sets back, and prints the number; with copy images have its content, and with ask it is copied to
// another node every 50 rounds.
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "find_services.h"

static int memory = -1;

static long *kept_counter(const char *name)
{
  memory = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  void *at = memory < 0 || ftruncate(memory, 4096) ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (at == MAP_FAILED) MPI_Abort(MPI_COMM_WORLD, 8);
  return at;
}

// What it prints is the same when a rollback has it done again.
static void copy_counter(int rank)
{
  const struct cr_rank_services *services = cr_find_rank_services();
  char why[200] = "there are no services";
  const int error = services ? services->copy_kept("rounds", memory, why, sizeof why) : -1;
  if (error)
    fprintf(stderr, "rank %d is not copied: %s\n", rank, why);
  else
    fprintf(stderr, "rank %d is copied\n", rank);
}

int main(int argc, char **argv)
{
  const long rounds = argc > 1 ? atol(argv[1]) : 10;
  const unsigned pause_us = argc > 2 ? (unsigned)atol(argv[2]) : 0;
  const int status = argc > 3 ? atoi(argv[3]) : 0;
  int rank, size;
  long total = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  setvbuf(stdout, NULL, _IOLBF, 0);
  long none = 0, *counted = &none;
  if (argc > 4 && strcmp(argv[4], "keep") == 0) counted = kept_counter("reprise.keep.rounds");
  const int asks = argc > 4 && strcmp(argv[4], "ask") == 0;
  if (asks || (argc > 4 && strcmp(argv[4], "copy") == 0)) counted = kept_counter("reprise.keep+rounds");
  if (memory >= 0 && !asks) close(memory);  // the mapping keeps it
  for (long round = 0; round < rounds; ++round) {
    static long out[4096], in[4096];
    for (int i = 0; i < 4096; ++i) out[i] = round * 1000003 + rank * 4096 + i;
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Sendrecv(out, 4096, MPI_LONG, right, 7, in, 4096, MPI_LONG, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 4096; ++i)
      if (in[i] != round * 1000003 + left * 4096 + i) {
        fprintf(stderr, "rank %d: wrong number in round %ld\n", rank, round);
        MPI_Abort(MPI_COMM_WORLD, 9);
      }
    long sum = 0, mine = in[round % 4096] % 977;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    total += sum;
    ++*counted;
    if (asks && round % 50 == 49) copy_counter(rank);
    if (rank == 0 && round % 10 == 0) printf("round %ld\n", round);
    if (pause_us) usleep(pause_us);
  }
  if (argc > 4 && strcmp(argv[4], "abort") == 0 && rank == 1) MPI_Abort(MPI_COMM_WORLD, 17);
  if (rank == 0) printf("total %ld\n", total);
  if (counted != &none) fprintf(stderr, "rank %d has counted %ld rounds\n", rank, *counted);
  fprintf(stderr, "rank %d of %d is through\n", rank, size);
  MPI_Finalize();
  return rank == 0 ? status : 0;
}
