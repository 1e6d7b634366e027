// SPDX-License-Identifier: GPL-2.0-only
// mpi_apart CHILDREN ROUNDS PAUSE_US TALK [STEPS]: the ranks spawn this program again. The children send numbers around
// their ring and verify them, ROUNDS times; meanwhile the parents make steps of their own, each with a collective, until they
// hear the total. Every TALK rounds (0: never) the first child tells a number to the first parent. That prints a line when it
// has made some steps, and the total and the sum of what it was told at the end. It appends the number of each step to the
// file STEPS: a step that a rollback repeats is there twice.
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ring_round.h"

enum { TELL = 1, TOTAL = 2, STEP_US = 20000, SOME = 10 };

static void be_child(MPI_Comm parents, int rank, long rounds, unsigned pause_us, long talk)
{
  long result[2] = {0, 0};
  int size;

  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (long round = 0; round < rounds; ++round) {
    result[0] += one_round(MPI_COMM_WORLD, rank, size, round);
    if (rank == 0 && talk && round % talk == 0) {
      MPI_Send(&result[0], 1, MPI_LONG, 0, TELL, parents);
      result[1]++;
    }
    if (pause_us) usleep(pause_us);
  }
  if (rank == 0) MPI_Send(result, 2, MPI_LONG, 0, TOTAL, parents);
}

static void note_step(const char *path, long step)
{
  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);

  if (fd < 0 || dprintf(fd, "%ld\n", step) < 0 || close(fd)) {
    perror(path);
    MPI_Abort(MPI_COMM_WORLD, 8);
  }
}

static long listen_to(MPI_Comm children)
{
  long told = 0;

  MPI_Recv(&told, 1, MPI_LONG, 0, TELL, children, MPI_STATUS_IGNORE);
  return told;
}

static void be_parent(MPI_Comm children, int rank, const char *path)
{
  MPI_Request request = MPI_REQUEST_NULL;
  long result[2] = {0, 0}, heard = 0, times = 0;
  int over = 0, there;

  if (rank == 0) MPI_Irecv(result, 2, MPI_LONG, 0, TOTAL, children, &request);
  for (long step = 1; !over; ++step) {
    int mine = 0;

    if (rank == 0) MPI_Test(&request, &mine, MPI_STATUS_IGNORE);
    if (rank == 0) MPI_Iprobe(0, TELL, children, &there, MPI_STATUS_IGNORE);
    if (rank == 0 && there) heard += listen_to(children), times++;
    MPI_Allreduce(&mine, &over, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0 && path) note_step(path, step);
    if (rank == 0 && step == SOME) printf("the parents have made some steps\n");
    if (!over) usleep(STEP_US);
  }
  if (rank) return;
  for (; times < result[1]; times++) heard += listen_to(children);
  printf("total %ld, heard %ld\n", result[0], heard);
}

int main(int argc, char **argv)
{
  MPI_Comm other;
  int rank;

  if (argc < 5) return 2;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_get_parent(&other);
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (other != MPI_COMM_NULL) {
    be_child(other, rank, atol(argv[2]), (unsigned)atol(argv[3]), atol(argv[4]));
  } else {
    MPI_Comm_spawn(argv[0], argv + 1, atoi(argv[1]), MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
    be_parent(other, rank, argc > 5 ? argv[5] : NULL);
  }
  MPI_Comm_disconnect(&other);
  MPI_Finalize();
  return 0;
}
