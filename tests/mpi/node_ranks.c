// SPDX-License-Identifier: GPL-2.0-only
// How many ranks does MPI_Comm_split_type() put on each rank's node? Says so again and again, while FILE exists, and checks that
// one-sided communication works between all ranks. node_ranks FILE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int on_my_node(int rank)
{
  MPI_Comm node;
  int size;

  // Rank 0 first takes part without wanting a communicator.
  MPI_Comm_split_type(MPI_COMM_WORLD, rank ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED, rank, MPI_INFO_NULL, &node);
  if ((node == MPI_COMM_NULL) != !rank) MPI_Abort(MPI_COMM_WORLD, 4);
  if (rank) MPI_Comm_free(&node);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &size);
  MPI_Comm_free(&node);
  return size;
}

/* Every rank puts its number into its neighbour's memory. */
static void put_and_check(int rank, int ranks)
{
  int *memory;
  MPI_Win window;

  MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  *memory = -1;
  MPI_Win_fence(0, window);
  MPI_Put(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  if (*memory != (rank + ranks - 1) % ranks) MPI_Abort(MPI_COMM_WORLD, 3);
  MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
  int rank, ranks, *sizes;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  sizes = calloc(ranks, sizeof *sizes);
  for (int iteration = 0, more = 1; more; iteration++) {
    const int size = on_my_node(rank);

    MPI_Gather(&size, 1, MPI_INT, sizes, 1, MPI_INT, 0, MPI_COMM_WORLD);
    put_and_check(rank, ranks);
    if (rank == 0) {
      printf("node:");
      for (int i = 0; i < ranks; i++) printf(" %d", sizes[i]);
      printf("\niteration %d\n", iteration);
      fflush(stdout);
      more = argc > 1 && !access(argv[1], F_OK);
    }
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  free(sizes);
  MPI_Finalize();
  return 0;
}
