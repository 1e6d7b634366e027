// SPDX-License-Identifier: GPL-2.0-only
// A rank of a given size: holds MB of incompressible memory, changes a part of it in each iteration, and communicates
// with its neighbours and with all ranks. Rank 0 prints the number of each iteration.
//   ballast MB ITERATIONS [PART]     PART: fraction changed per iteration, default 0.01
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t next(uint64_t *state)
{
  *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
  return *state >> 11;
}

int main(int argc, char **argv)
{
  const size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 0) : 16) << 20;
  const long iterations = argc > 2 ? strtol(argv[2], NULL, 0) : 100;
  const double part = argc > 3 ? strtod(argv[3], NULL) : 0.01;
  const size_t pages = bytes >> 12;
  enum { BLOCK = 65536 };
  static char out[BLOCK], in[BLOCK];
  uint64_t state, sum = 0, all = 0;
  int rank, size;
  char *memory;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  state = 4711 + (uint64_t) rank;
  memory = malloc(bytes);
  if (!memory) {
    fprintf(stderr, "ballast: no memory for %zu bytes\n", bytes);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (size_t i = 0; i < pages; i++)
    for (size_t j = 0; j < 4096; j += 64) *(uint64_t *) (memory + (i << 12) + j) = next(&state);
  for (long n = 0; n < iterations; n++) {
    const struct timespec moment = {0, 20000000};

    for (size_t i = 0; i < (size_t) ((double) pages * part); i++) *(uint64_t *) (memory + ((next(&state) % pages) << 12)) = state;
    nanosleep(&moment, NULL);
    memcpy(out, memory + ((next(&state) % (pages - 16)) << 12), BLOCK);
    MPI_Sendrecv(out, BLOCK, MPI_BYTE, (rank + 1) % size, 0, in, BLOCK, MPI_BYTE, (rank + size - 1) % size, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (size_t j = 0; j < BLOCK; j += 64) sum += *(uint64_t *) (in + j);
    MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
      printf("ballast: iteration %ld\n", n);
      fflush(stdout);
    }
  }
  if (rank == 0) printf("ballast: checksum %016llx\n", (unsigned long long) all);
  MPI_Finalize();
  return 0;
}
