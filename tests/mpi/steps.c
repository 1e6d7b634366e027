// SPDX-License-Identifier: GPL-2.0-only
// steps FOLDER: every rank carries out the steps that a test writes to FOLDER/RANK.NUMBER, one file after the other, and
// writes the result of each to FOLDER/RANK.NUMBER.result, and before the first its pid to FOLDER/RANK.0.result. Between them
// it computes: it makes no call of MPI. Errors are returned.
//   send PEER BYTES    MPI_Send
//   vector PEER BYTES  MPI_Send of bytes that do not follow each other
//   recv PEER BYTES    MPI_Recv, and checks the content
//   testall PEER BYTES OTHER   MPI_Isend to the one, MPI_Irecv from the other, and MPI_Testall until both are complete
//   half PEER BYTES    MPI_Irecv, and stops (SIGSTOP) when a part of the message has come
//   spawn              MPI_Comm_spawn of another process like this one, of which the rank is 100; then one message each way
//   disconnect         MPI_Comm_disconnect from it
//   copy               has its kept memory copied to another node: the result has the status, and why
//   end                MPI_Finalize
#define _GNU_SOURCE
#include <mpi.h>

#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "find_services.h"

enum { SPAWNED = 100, LONGEST = 1 << 22 };

static const char *folder, *program;
static char buffer[LONGEST], incoming[LONGEST];
static int rank, sent[SPAWNED], received[SPAWNED];
static MPI_Comm other = MPI_COMM_NULL;  // with the spawned process or, in that, with its parent

static const char *result(int error)
{
  static char text[MPI_MAX_ERROR_STRING];
  int class, length;

  if (error == MPI_SUCCESS) return "ok";
  MPI_Error_class(error, &class);
  if (class == MPIX_ERR_PROC_FAILED) return "process failed";
  MPI_Error_string(error, text, &length);
  return text;
}

// The content of a message depends on how many there were before.
static void fill(int bytes, int number)
{
  for (int i = 0; i < bytes; i++) buffer[i] = (char) (i * 7 + number);
}

static const char *check(const char *got, int bytes, int number)
{
  for (int i = 0; i < bytes; i++)
    if (got[i] != (char) (i * 7 + number)) return "wrong content";
  return "ok";
}

static int exchange(MPI_Comm comm)
{
  int got = 0;
  int error = MPI_Sendrecv(&rank, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);

  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return error;
}

static const char *spawn(void)
{
  char *arguments[] = {(char *) folder, NULL};
  const int error = MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other, MPI_ERRCODES_IGNORE);

  return result(error ? error : exchange(other));
}

static const char *send_vector(int peer, int bytes)
{
  MPI_Datatype type;
  int error;

  if (bytes > LONGEST / 2) return "no such step";
  for (int i = 0; i < bytes; i++) buffer[2 * i] = (char) (i * 7 + sent[peer]);
  sent[peer]++;
  MPI_Type_vector(bytes, 1, 2, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  error = MPI_Send(buffer, 1, type, peer, 0, MPI_COMM_WORLD);
  MPI_Type_free(&type);
  return result(error);
}

static const char *test_all(int peer, int bytes, int other_peer)
{
  MPI_Request both[2];
  MPI_Status statuses[2];
  int flag = 0, error;
  const char *content;

  fill(bytes, sent[peer]++);
  MPI_Isend(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &both[0]);
  MPI_Irecv(incoming, bytes, MPI_BYTE, other_peer, 0, MPI_COMM_WORLD, &both[1]);
  do
    error = MPI_Testall(2, both, &flag, statuses);
  while (error == MPI_SUCCESS && !flag);
  if (error == MPI_ERR_IN_STATUS) error = statuses[0].MPI_ERROR;
  content = check(incoming, bytes, received[other_peer]++);
  return strcmp(content, "ok") != 0 ? content : result(error);
}

static const char *receive_half(int peer, int bytes)
{
  const char *middle = &incoming[bytes / 4];
  MPI_Request request;
  int flag;

  memset(incoming, 0x55, bytes);
  MPI_Irecv(incoming, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request);
  do
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
  while (!flag && *middle == 0x55);
  raise(SIGSTOP);
  return flag ? "all has come" : "half has come";
}

static const char *copy_kept(void)
{
  const struct cr_rank_services *services = cr_find_rank_services();
  static char text[300];
  static int memory = -1;
  char why[256];
  int status;

  if (!services) return "no services";
  if (memory < 0) memory = memfd_create("reprise.keep+it", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  status = services->copy_kept("it", memory, why, sizeof why);
  snprintf(text, sizeof text, "%d %s", status, why);
  return text;
}

static const char *carry_out(const char *word, int peer, int bytes, int other_peer)
{
  int error;

  if (peer < 0 || peer >= SPAWNED || other_peer < 0 || other_peer >= SPAWNED || bytes < 0 || bytes > LONGEST) return "no such step";
  if (!strcmp(word, "send")) {
    fill(bytes, sent[peer]++);
    return result(MPI_Send(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD));
  }
  if (!strcmp(word, "recv")) {
    error = MPI_Recv(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return error ? result(error) : check(buffer, bytes, received[peer]++);
  }
  if (!strcmp(word, "vector")) return send_vector(peer, bytes);
  if (!strcmp(word, "testall")) return test_all(peer, bytes, other_peer);
  if (!strcmp(word, "half")) return receive_half(peer, bytes);
  if (!strcmp(word, "spawn")) return spawn();
  if (!strcmp(word, "copy")) return copy_kept();
  if (!strcmp(word, "disconnect")) return result(MPI_Comm_disconnect(&other));
  if (!strcmp(word, "end")) return result(MPI_Finalize());
  return "no such step";
}

static void write_result(int number, const char *text)
{
  char part[4096], path[4096];
  FILE *file;

  snprintf(part, sizeof part, "%s/%d.%d.part", folder, rank, number);
  snprintf(path, sizeof path, "%s/%d.%d.result", folder, rank, number);
  file = fopen(part, "w");
  if (!file || fprintf(file, "%s", text) < 0 || fclose(file) || rename(part, path)) abort();
}

int main(int argc, char **argv)
{
  char pid[20];

  if (argc != 2) return 2;
  MPI_Init(&argc, &argv);
  program = argv[0];
  folder = argv[1];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_get_parent(&other);
  if (other != MPI_COMM_NULL) {
    rank = SPAWNED;
    exchange(other);
  }
  snprintf(pid, sizeof pid, "%d", getpid());
  write_result(0, pid);
  for (int number = 1;; number++) {
    char path[4096], line[200], word[20] = "";
    int peer = 0, bytes = 0, other_peer = 0;
    FILE *file;

    snprintf(path, sizeof path, "%s/%d.%d", folder, rank, number);
    while (!(file = fopen(path, "r"))) usleep(5000);
    if (!fgets(line, sizeof line, file)) line[0] = 0;
    fclose(file);
    sscanf(line, "%19s %d %d %d", word, &peer, &bytes, &other_peer);
    write_result(number, carry_out(word, peer, bytes, other_peer));
    if (!strcmp(word, "end")) return 0;
  }
}
