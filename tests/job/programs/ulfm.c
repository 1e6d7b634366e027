// SPDX-License-Identifier: GPL-2.0-only
// ulfm MODE [ARGUMENT]: programs that deal with failures by the functions of MPI's user-level failure mitigation. Each checks
// what the calls return, and ends with 1 and a message if one is wrong. Rank 0 prints a line for each step.
//   calls          the last two ranks fail; each call of the standard's chapter is used by the others
//   fatal RANK     this rank fails while others communicate under MPI_ERRORS_ARE_FATAL
//   shrink N       N times: the last rank fails, the others notice it in a collective and shrink the communicator
//   respawn N      N times: the last rank fails, the others spawn another in its place
//   turns N        the same, but the oldest process fails each time
//   during WHAT    a rank fails while the others are in WHAT: shrink, agree or spawn
//   wait FILE      all communicate until FILE exists or ranks fail from outside; then shrink, and go on. Ends when FILE is there
//   replace FILE   the same, but the others spawn as many as have failed
//   time N         prints how long these take: N failures, each noticed, shrunk, agreed upon and replaced; with a further
//                  argument they are not replaced
#include <mpi.h>

#include <mpi-ext.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;  // in MPI_COMM_WORLD, or in the communicator that has taken its place

#define CHECK(what)                                                              \
  do {                                                                           \
    if (!(what)) {                                                               \
      fprintf(stderr, "rank %d: line %d: not so: %s\n", rank, __LINE__, #what);  \
      fflush(stderr);                                                            \
      MPI_Abort(MPI_COMM_WORLD, 1);                                              \
    }                                                                            \
  } while (0)

static int class_of(int error)
{
  int class = MPI_SUCCESS;
  if (error != MPI_SUCCESS) MPI_Error_class(error, &class);
  return class;
}

static void expect(int error, int wanted, int line, const char *what)
{
  char text[MPI_MAX_ERROR_STRING] = "";
  int length;
  if (class_of(error) == wanted) return;
  MPI_Error_string(error, text, &length);
  fprintf(stderr, "rank %d: line %d: %s returned %d (%s), not an error of class %d\n", rank, line, what, error, text, wanted);
  fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
}
#define EXPECT(wanted, call) expect((call), (wanted), __LINE__, #call)

static void say(const char *text)
{
  if (rank == 0) printf("%s\n", text);
}

static void fail(void)
{
  raise(SIGKILL);
  for (;;) pause();
}

static void errors_return(MPI_Comm comm)
{
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

/* Wait until a failure of at least `n` processes of the communicator is known here. */
static void await_failures(MPI_Comm comm, int n)
{
  int known = 0;
  while (known < n) {
    MPI_Group group;
    int flag;
    MPI_Iprobe(MPI_ANY_SOURCE, 77, comm, &flag, MPI_STATUS_IGNORE);  // progress
    EXPECT(MPI_SUCCESS, MPIX_Comm_get_failed(comm, &group));
    MPI_Group_size(group, &known);
    MPI_Group_free(&group);
  }
}

/* The sum of all ranks, over a communicator without failed processes. */
static void check_sum(MPI_Comm comm)
{
  int me, n, sum = 0;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &n);
  EXPECT(MPI_SUCCESS, MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm));
  CHECK(sum == n * (n - 1) / 2);
}

/* All have computed the sum, and know that all have: a process that fails now does not spoil it. */
static void check_sum_together(MPI_Comm comm)
{
  int flag = 1;
  check_sum(comm);
  EXPECT(MPI_SUCCESS, MPIX_Comm_agree(comm, &flag));
}

/* Shrink until a collective over the result succeeds everywhere: further processes may fail meanwhile. */
static MPI_Comm repaired(MPI_Comm broken)
{
  MPI_Comm comm;
  int flag, error;
  MPIX_Comm_revoke(broken);
  for (;;) {
    EXPECT(MPI_SUCCESS, MPIX_Comm_shrink(broken, &comm));
    errors_return(comm);
    error = MPI_Barrier(comm);
    flag = error == MPI_SUCCESS;
    error = MPIX_Comm_agree(comm, &flag);
    if (error == MPI_SUCCESS && flag) return comm;
    MPI_Comm_free(&comm);
  }
}

/* ---------------------------------------------------------------------------------------------- calls */

static void point_to_point(MPI_Comm comm, int dead)
{
  int x = 1, y = 0, got = -1, flag = 0, index = -1;
  MPI_Request request, both[2];
  MPI_Status status, statuses[2];

  EXPECT(MPIX_ERR_PROC_FAILED, MPI_Recv(&y, 1, MPI_INT, dead, 1, comm, &status));
  EXPECT(MPIX_ERR_PROC_FAILED, MPI_Ssend(&x, 1, MPI_INT, dead, 1, comm));
  got = MPI_Irecv(&y, 1, MPI_INT, dead, 1, comm, &request);
  if (got == MPI_SUCCESS) got = MPI_Wait(&request, &status);
  EXPECT(MPIX_ERR_PROC_FAILED, got);
  // A pending pair, of which only the one with the dead process fails.
  MPI_Irecv(&y, 1, MPI_INT, rank, 2, comm, &both[0]);
  if (MPI_Irecv(&x, 1, MPI_INT, dead, 2, comm, &both[1]) == MPI_SUCCESS) {
    got = MPI_Waitany(1, &both[1], &index, &status);
    EXPECT(MPIX_ERR_PROC_FAILED, got);
  }
  x = 5;
  MPI_Send(&x, 1, MPI_INT, rank, 2, comm);
  EXPECT(MPI_SUCCESS, MPI_Waitall(1, both, statuses));
  CHECK(y == 5);
  EXPECT(MPIX_ERR_PROC_FAILED, MPI_Probe(dead, 3, comm, &status));
  got = MPI_Iprobe(dead, 3, comm, &flag, &status);
  CHECK(class_of(got) == MPIX_ERR_PROC_FAILED || !flag);
  // Between two live ranks everything goes on.
  EXPECT(MPI_SUCCESS, MPI_Sendrecv(&x, 1, MPI_INT, rank, 4, &y, 1, MPI_INT, rank, 4, comm, &status));
}

static void any_source(MPI_Comm comm, int live)
{
  MPI_Request request;
  MPI_Status status;
  MPI_Group group;
  int in = -1, out = rank, known = 0, error;
  const int right = (rank + 1) % live, left = (rank + live - 1) % live;

  // A receive from anybody cannot say whom it waits for: it is pending until the failures are acknowledged.
  error = MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 5, comm, &request);
  EXPECT(MPI_SUCCESS, error);
  EXPECT(MPIX_ERR_PROC_FAILED_PENDING, MPI_Wait(&request, &status));
  CHECK(request != MPI_REQUEST_NULL);
  EXPECT(MPI_SUCCESS, MPIX_Comm_failure_ack(comm));
  EXPECT(MPI_SUCCESS, MPIX_Comm_failure_get_acked(comm, &group));
  MPI_Group_size(group, &known);
  CHECK(known == 2);
  MPI_Group_free(&group);
  // No number is sent before its receiver has seen that error.
  EXPECT(MPI_SUCCESS, MPI_Sendrecv(&out, 1, MPI_INT, left, 8, &known, 1, MPI_INT, right, 8, comm, &status));
  EXPECT(MPI_SUCCESS, MPI_Send(&out, 1, MPI_INT, right, 5, comm));
  error = MPI_Wait(&request, &status);
  if (class_of(error) == MPIX_ERR_PROC_FAILED_PENDING) {
    // Open MPI 5.0.7 returns the old error again if the message has come before this second wait.
    MPI_Request_free(&request);
  } else {
    EXPECT(MPI_SUCCESS, error);
  }
  CHECK(in == left);
  EXPECT(MPI_SUCCESS, MPIX_Comm_ack_failed(comm, 2, &known));
  CHECK(known == 2);
}

static void agreements(MPI_Comm comm)
{
  MPI_Request request;
  int flag = rank == 1 ? 6 : 7;

  EXPECT(MPI_SUCCESS, MPIX_Comm_agree(comm, &flag));  // all failures are acknowledged
  CHECK(flag == 6);
  flag = rank == 0 ? 5 : 7;
  EXPECT(MPI_SUCCESS, MPIX_Comm_iagree(comm, &flag, &request));
  EXPECT(MPI_SUCCESS, MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK(flag == 5);
}

static void calls(void)
{
  MPI_Comm comm, small, again;
  MPI_Request request;
  int n, flag = 0, revoked = 0, x = 0;
  const int live = size - 2;

  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  errors_return(comm);
  MPI_Barrier(comm);
  if (rank >= live) fail();
  await_failures(comm, 2);
  say("failures are known");
  point_to_point(comm, live);
  point_to_point(comm, live + 1);
  say("point-to-point");
  any_source(comm, live);
  say("any source");
  agreements(comm);
  say("agree");
  // Collectives with a failed member raise errors; nonblocking ones when they are waited for.
  EXPECT(MPIX_ERR_PROC_FAILED, MPI_Allreduce(&rank, &x, 1, MPI_INT, MPI_SUM, comm));
  n = MPI_Ibarrier(comm, &request);
  if (n == MPI_SUCCESS) n = MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT(MPIX_ERR_PROC_FAILED, n);
  say("collectives");
  EXPECT(MPI_SUCCESS, MPIX_Comm_is_revoked(comm, &revoked));
  CHECK(!revoked);
  flag = 1;
  EXPECT(MPI_SUCCESS, MPIX_Comm_agree(comm, &flag));  // the others have come this far, too
  if (rank == 0) {
    EXPECT(MPI_SUCCESS, MPIX_Comm_revoke(comm));
    EXPECT(MPIX_ERR_REVOKED, MPI_Send(&x, 1, MPI_INT, 1, 6, comm));
  } else {
    EXPECT(MPIX_ERR_REVOKED, MPI_Recv(&x, 1, MPI_INT, 0, 6, comm, MPI_STATUS_IGNORE));
  }
  EXPECT(MPI_SUCCESS, MPIX_Comm_is_revoked(comm, &revoked));
  CHECK(revoked);
  EXPECT(MPIX_ERR_REVOKED, MPI_Barrier(comm));
  say("revoke");
  EXPECT(MPI_SUCCESS, MPIX_Comm_shrink(comm, &small));
  MPI_Comm_size(small, &n);
  CHECK(n == live);
  check_sum(small);
  flag = 1;
  EXPECT(MPI_SUCCESS, MPIX_Comm_agree(comm, &flag));  // also on a revoked communicator
  CHECK(flag == 1);
  EXPECT(MPI_SUCCESS, MPI_Comm_dup(small, &again));
  check_sum(again);
  say("shrink");
}

/* --------------------------------------------------------------------------------------- many failures */

static void shrink(int rounds)
{
  MPI_Comm comm, next;
  int n, i;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  errors_return(comm);
  CHECK(rounds < size);
  for (i = 0; i < rounds; i++) {
    check_sum_together(comm);
    MPI_Comm_size(comm, &n);
    if (rank == n - 1) fail();
    while (MPI_Barrier(comm) == MPI_SUCCESS) {}
    next = repaired(comm);
    MPI_Comm_free(&comm);
    comm = next;
    MPI_Comm_size(comm, &n);
    CHECK(n == size - i - 1);
    if (rank == 0) printf("%d ranks are left\n", n);
  }
  check_sum(comm);
}

/* Spawn what `comm` lacks to `wanted` processes. All of them, the new ones included, get a communicator of that size. */
static MPI_Comm refilled(MPI_Comm comm, int wanted, char **argv)
{
  MPI_Comm inter, all, ordered;
  int have, now, ok;
  char *arguments[] = {argv[1], argv[2], NULL};

  MPI_Comm_size(comm, &have);
  ok = MPI_Comm_spawn(argv[0], arguments, wanted - have, MPI_INFO_NULL, 0, comm, &inter, MPI_ERRCODES_IGNORE) == MPI_SUCCESS;
  MPIX_Comm_agree(comm, &ok);
  CHECK(ok);
  errors_return(inter);
  EXPECT(MPI_SUCCESS, MPI_Intercomm_merge(inter, 0, &all));
  errors_return(all);
  MPI_Bcast(&wanted, 1, MPI_INT, 0, all);
  EXPECT(MPI_SUCCESS, MPI_Comm_split(all, 0, rank, &ordered));
  MPI_Comm_size(ordered, &now);
  CHECK(now == wanted);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&inter);
  errors_return(ordered);
  return ordered;
}

/* The other side of refilled(), in a spawned process. */
static MPI_Comm joined(MPI_Comm parent)
{
  MPI_Comm all, ordered;
  int wanted, me;
  errors_return(parent);
  EXPECT(MPI_SUCCESS, MPI_Intercomm_merge(parent, 1, &all));
  errors_return(all);
  MPI_Bcast(&wanted, 1, MPI_INT, 0, all);
  MPI_Comm_rank(all, &me);
  EXPECT(MPI_SUCCESS, MPI_Comm_split(all, 0, me, &ordered));
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&parent);
  errors_return(ordered);
  return ordered;
}

/* All processes: in a spawned one, those in which it takes the place of another. */
static MPI_Comm everybody(void)
{
  MPI_Comm comm, parent;
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) return joined(parent);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  errors_return(comm);
  return comm;
}

/* Spawned processes come last in the new communicator: rank 0 is the oldest. */
static void respawn(int rounds, bool oldest, char **argv)
{
  MPI_Comm comm, next;
  int round = 0, n;

  comm = everybody();
  for (;;) {
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &n);
    EXPECT(MPI_SUCCESS, MPI_Bcast(&round, 1, MPI_INT, 0, comm));
    check_sum_together(comm);
    if (rank == 0) printf("round %d: %d ranks\n", round, n);
    if (round++ == rounds) break;
    if (rank == (oldest ? 0 : n - 1)) fail();
    while (MPI_Barrier(comm) == MPI_SUCCESS) {}
    next = repaired(comm);
    MPI_Comm_free(&comm);
    comm = refilled(next, n, argv);
    MPI_Comm_free(&next);
  }
  MPI_Comm_free(&comm);
}

static void during(const char *what, char **argv)
{
  MPI_Comm comm, small, parent;
  int flag = 1, n;

  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) fail();  // a spawned process fails before its parents are connected with it
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  errors_return(comm);
  MPI_Barrier(comm);
  if (strcmp(what, "spawn") == 0) {
    char *arguments[] = {argv[1], argv[2], NULL};
    MPI_Comm inter;
    flag = MPI_Comm_spawn(argv[0], arguments, 1, MPI_INFO_NULL, 0, comm, &inter, MPI_ERRCODES_IGNORE) == MPI_SUCCESS &&
           MPI_Barrier(inter) == MPI_SUCCESS;
    CHECK(!flag);
    check_sum(comm);
    say("a spawn has failed");
    return;
  }
  // The last one fails; the one before it when the others are already at work.
  if (rank == size - 1) fail();
  while (MPI_Barrier(comm) == MPI_SUCCESS) {}
  MPIX_Comm_revoke(comm);
  if (rank == size - 2) {
    usleep(strcmp(what, "agree") == 0 ? 200000 : 100000);
    fail();
  }
  if (strcmp(what, "agree") == 0) {
    // It returns the same to all, with an error for the failures that were not acknowledged.
    const int error = MPIX_Comm_agree(comm, &flag);
    CHECK(class_of(error) == MPIX_ERR_PROC_FAILED || error == MPI_SUCCESS);
  }
  small = repaired(comm);
  MPI_Comm_size(small, &n);
  CHECK(n == size - 2);
  check_sum(small);
  if (rank == 0) printf("after a failure in %s: %d ranks\n", what, n);
}

/* ------------------------------------------------------------------------------------ failures from outside */

static MPI_Comm repaired_and_refilled(MPI_Comm broken, int wanted, char **argv)
{
  MPI_Comm small = repaired(broken), comm;
  int n;
  MPI_Comm_size(small, &n);
  MPI_Comm_rank(small, &rank);
  if (rank == 0) printf("%d ranks are left\n", n);
  if (!argv) return small;
  comm = refilled(small, wanted, argv);
  MPI_Comm_free(&small);
  return comm;
}

/* @param argv of the program to spawn; NULL: do without those that have failed */
static void wait_for(const char *file, char **argv)
{
  MPI_Comm comm, parent, next;
  int go = 1, n;

  MPI_Comm_get_parent(&parent);
  comm = everybody();
  if (parent == MPI_COMM_NULL)
    say("ready");
  else
    check_sum(comm);  // as the others do
  MPI_Comm_size(comm, &n);
  while (go) {
    MPI_Comm_rank(comm, &rank);
    if (rank == 0) go = access(file, F_OK) != 0;
    if (MPI_Bcast(&go, 1, MPI_INT, 0, comm) != MPI_SUCCESS || MPI_Barrier(comm) != MPI_SUCCESS) {
      next = repaired_and_refilled(comm, n, argv);
      MPI_Comm_free(&comm);
      comm = next;
      check_sum(comm);
      if (argv) say("all ranks are there again");
      go = 1;
      continue;
    }
    usleep(10000);
  }
  check_sum(comm);
  MPI_Comm_free(&comm);
}

/* ----------------------------------------------------------------------------------------------- times */

static void times(int rounds, bool replace, char **argv)
{
  MPI_Comm comm, next;
  double t[4];
  double death;
  int round = 0, n, flag;

  comm = everybody();
  for (;;) {
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &n);
    MPI_Bcast(&round, 1, MPI_INT, 0, comm);
    if (round++ == rounds) break;
    MPI_Barrier(comm);
    // Processes have clocks of their own: the first one notes when the last one says that it fails now.
    if (rank == n - 1) {
      MPI_Send(&n, 1, MPI_INT, 0, 9, comm);
      fail();
    }
    if (rank == 0) MPI_Recv(&n, 1, MPI_INT, n - 1, 9, comm, MPI_STATUS_IGNORE);
    death = MPI_Wtime();
    while (MPI_Barrier(comm) == MPI_SUCCESS) {}
    t[0] = MPI_Wtime();
    MPIX_Comm_revoke(comm);
    MPIX_Comm_shrink(comm, &next);
    t[1] = MPI_Wtime();
    errors_return(next);
    flag = 1;
    MPIX_Comm_agree(next, &flag);
    t[2] = MPI_Wtime();
    MPI_Comm_free(&comm);
    comm = next;
    if (replace) {
      comm = refilled(next, n, argv);
      MPI_Comm_free(&next);
    }
    t[3] = MPI_Wtime();
    if (rank == 0)
      printf("ms: noticed %.1f shrink %.1f agree %.1f spawn %.1f\n", (t[0] - death) * 1e3, (t[1] - t[0]) * 1e3,
             (t[2] - t[1]) * 1e3, (t[3] - t[2]) * 1e3);
  }
  MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
  const char *mode = argc > 1 ? argv[1] : "calls", *argument = argc > 2 ? argv[2] : "1";

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  setvbuf(stdout, NULL, _IOLBF, 0);
  errors_return(MPI_COMM_WORLD);
  if (strcmp(mode, "calls") == 0) calls();
  if (strcmp(mode, "shrink") == 0) shrink(atoi(argument));
  if (strcmp(mode, "respawn") == 0) respawn(atoi(argument), false, argv);
  if (strcmp(mode, "turns") == 0) respawn(atoi(argument), true, argv);
  if (strcmp(mode, "during") == 0) during(argument, argv);
  if (strcmp(mode, "wait") == 0) wait_for(argument, NULL);
  if (strcmp(mode, "replace") == 0) wait_for(argument, argv);
  if (strcmp(mode, "time") == 0) times(atoi(argument), argc <= 3, argv);
  if (strcmp(mode, "fatal") == 0) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    if (rank == atoi(argument)) fail();
    while (MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS) {}
  }
  MPI_Finalize();
  if (rank == 0) printf("ulfm %s: done\n", mode);
  return 0;
}
