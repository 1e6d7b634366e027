// SPDX-License-Identifier: GPL-2.0-only
// mpi_names: the last rank publishes a name, all ranks look it up, and it is gone after it is unpublished.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
  char port[MPI_MAX_PORT_NAME] = "";
  int rank, size;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  if (rank == size - 1 && MPI_Publish_name("service", MPI_INFO_NULL, "here it is") != MPI_SUCCESS) return 3;
  MPI_Barrier(MPI_COMM_WORLD);
  if (MPI_Lookup_name("service", MPI_INFO_NULL, port) != MPI_SUCCESS) return 4;
  printf("%s\n", port);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == size - 1 && MPI_Unpublish_name("service", MPI_INFO_NULL, "here it is") != MPI_SUCCESS) return 5;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return strcmp(port, "here it is") == 0 ? 0 : 6;
}
