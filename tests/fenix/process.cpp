// SPDX-License-Identifier: GPL-2.0-only
// Process recovery: where the program goes on, and what it is told.
#include <unistd.h>

#include <cstring>
#include <vector>

#include "fenix_exception.hpp"
#include "modes.h"

namespace {

/** One step of a ring: each rank's number depends on all others'. @return MPI's error */
int step(int number, double &value) {
  perhaps_die("step" + std::to_string(number));
  const int rank = rank_now(), size = size_now();
  double from_left = 0, sum = 0;
  int failed = MPI_Sendrecv(&value, 1, MPI_DOUBLE, (rank + 1) % size, 1, &from_left, 1, MPI_DOUBLE, (rank + size - 1) % size, 1, comm,
                            MPI_STATUS_IGNORE);
  if (failed) return failed;
  value = 0.3 * value + 0.7 * from_left + 1.0 / (number + 1);
  failed = MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
  value -= sum / (3 * size);
  return failed;
}

/** What the library says fits together. */
void check_queries() {
  const int size = size_now(), rank = rank_now();
  int own, counts[3], flag, *lost;
  unsigned mode;
  CHECK(Fenix_Initialized(&flag) == FENIX_SUCCESS && flag);
  CHECK(Fenix_get_role(comm, rank, &own) == FENIX_SUCCESS && own == role);
  for (int i = 0; i < 3; ++i) CHECK(Fenix_get_number_of_ranks_with_role(i, &counts[i]) == FENIX_SUCCESS);
  CHECK(counts[0] + counts[1] + counts[2] == size);
  CHECK(counts[FENIX_ROLE_INITIAL_RANK] == (role == FENIX_ROLE_INITIAL_RANK ? size : 0));
  CHECK(Fenix_get_error() == error && Fenix_get_nspare() >= 0);
  CHECK(Fenix_get_option(FENIX_RECOVERY_MODE, &mode) == FENIX_SUCCESS);
  const int count = Fenix_Process_fail_list(&lost);
  CHECK(count >= 0 && (role == FENIX_ROLE_INITIAL_RANK || count > 0));
  for (int i = 1; i < count; ++i) CHECK(lost[i - 1] < lost[i]);
  MPI_Comm half;  // roles are those of derived communicators, too
  int other;
  MPI_Comm_split(comm, rank % 2, -rank, &half);
  for (int i = 0, n = (MPI_Comm_size(half, &n), n); i < n; ++i) CHECK(Fenix_get_role(half, i, &other) == FENIX_SUCCESS);
  CHECK(Fenix_get_role(half, 1000, &other) == FENIX_ERROR_NOCATEGORY && strstr(fenix_last_error(), "1000"));
  MPI_Comm_free(&half);
}

void say(double value) {
  if (rank_now() == 0) result("%d ranks %.17g", size_now(), value);
}

volatile int recoveries;

void count_recovery(MPI_Comm, int failure, void *data) {
  CHECK(failure != MPI_SUCCESS && data == &recoveries);
  recoveries = recoveries + 1;
}

}  // namespace

void jump() {
  static double value;  // not a local: the jump would make it uncertain
  INIT("Fenix_init");
  if (role == FENIX_ROLE_INITIAL_RANK) perhaps_die("begin");
  if (role != FENIX_ROLE_INITIAL_RANK) perhaps_die("again");
  check_queries();
  value = rank_now();
  for (int i = 0; i < options.steps; ++i) CHECK(step(i, value) == MPI_SUCCESS);
  say(value);
  perhaps_die("end");
  CHECK(Fenix_Finalize() == FENIX_SUCCESS);
}

void returns() {
  INIT("NO_JUMP");
  CHECK(Fenix_Callback_register(count_recovery, const_cast<int *>(&recoveries)) == FENIX_SUCCESS);
  double value = 0;
  for (bool done = false; !done;) {
    value = rank_now();
    int failed = MPI_SUCCESS;
    const int before = recoveries;
    for (int i = 0; i < options.steps && !failed; ++i) failed = step(i, value);
    CHECK(failed == MPI_SUCCESS || (role == FENIX_ROLE_SURVIVOR_RANK && recoveries == before + 1));
    if (failed) continue;
    perhaps_die("end");
    if (rank_now() == 0) result("%d ranks %.17g", size_now(), value);
    const int code = Fenix_Finalize();
    CHECK(code == FENIX_SUCCESS || (code == MPI_ERR_PROC_FAILED && recoveries == before + 1));
    done = code == FENIX_SUCCESS;
  }
}

void throws() {
  INIT("THROW");
  struct Counter {
    int &count;
    ~Counter() { ++count; }
  };
  int destroyed = 0, thrown = 0;
  for (bool done = false; !done;) {
    try {
      const Counter counter{destroyed};
      double value = rank_now();
      for (int i = 0; i < options.steps; ++i) CHECK(step(i, value) == MPI_SUCCESS);
      say(value);
      CHECK(Fenix_Finalize() == FENIX_SUCCESS);
      done = true;
    } catch (const fenix::CommException &exception) {
      ++thrown;
      CHECK(exception.repaired_comm == comm && role == FENIX_ROLE_SURVIVOR_RANK);
    }
  }
  CHECK(destroyed == thrown + 1);
}

// Rank 0 waits for rank 1 in a communicator of the two, rank 1 for rank 2 in another one, and so on; the last one waits for one that
// dies. Only that one hears of it by itself.
void derived() {
  static MPI_Comm pairs[2], copy;
  INIT("Fenix_init");
  const int rank = rank_now(), size = size_now();
  MPI_Comm_dup(comm, &copy);
  for (int odd = 0; odd < 2; ++odd) MPI_Comm_split(copy, (rank + odd) / 2, rank, &pairs[odd]);
  perhaps_die("begin");
  double mine = rank + 1, other = 0;
  if (rank + 1 < size) {  // the upper one of a pair is its rank 1
    const int odd = rank % 2;
    CHECK(MPI_Recv(&other, 1, MPI_DOUBLE, 1, 5, pairs[odd], MPI_STATUS_IGNORE) == MPI_SUCCESS);
  }
  mine += other / 3;
  if (rank > 0) CHECK(MPI_Send(&mine, 1, MPI_DOUBLE, 0, 5, pairs[(rank + 1) % 2]) == MPI_SUCCESS);
  CHECK(MPI_Bcast(&mine, 1, MPI_DOUBLE, 0, copy) == MPI_SUCCESS);
  say(mine);
  Fenix_Finalize();
}

static std::string calls;

void callbacks() {
  static double value;
  static bool registered;
  INIT("Fenix_init");
  if (!registered) {  // recovered ranks, too: they may be survivors of the next failure
    registered = true;
    CHECK(Fenix_Callback_pop() == FENIX_ERROR_CALLBACK_NOT_REGISTERED);
    Fenix_Callback_register([](MPI_Comm, int, void *) { calls += "1"; }, nullptr);
    Fenix_Callback_register(
        [](MPI_Comm repaired, int, void *) {
          calls += "2";
          int one = 1, sum;  // recovered ranks do the same after Fenix_Init
          CHECK(repaired == comm);
          perhaps_die("callback");
          MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, repaired);
          CHECK(sum == size_now());
        },
        nullptr);
    Fenix_Callback_register([](MPI_Comm, int, void *) { calls += "3"; }, nullptr);
    CHECK(Fenix_Callback_pop() == FENIX_SUCCESS);
  }
  if (role == FENIX_ROLE_RECOVERED_RANK) {
    int one = 1, sum;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  }
  if (role == FENIX_ROLE_SURVIVOR_RANK && !calls.empty()) CHECK(calls.size() >= 2 && calls.substr(calls.size() - 2) == "21");
  value = rank_now();
  for (int i = 0; i < options.steps; ++i) CHECK(step(i, value) == MPI_SUCCESS);
  say(value);
  Fenix_Finalize();
}

// A request that was complete before the failure, and one that never will be; and MPI_Waitall, which reports otherwise.
void requests() {
  static MPI_Request done, never, both[2];
  static int numbers[4];
  INIT("NO_JUMP");
  const int size = size_now(), rank = rank_now();
  if (role != FENIX_ROLE_RECOVERED_RANK) {
    numbers[0] = 7;
    MPI_Irecv(&numbers[1], 1, MPI_INT, rank, 1, comm, &done);
    MPI_Send(&numbers[0], 1, MPI_INT, rank, 1, comm);
    MPI_Irecv(&numbers[2], 1, MPI_INT, (rank + 1) % size, 2, comm, &never);
    MPI_Barrier(comm);
    perhaps_die("begin");
    MPI_Irecv(&numbers[3], 1, MPI_INT, (rank + 1) % size, 3, comm, &both[0]);
    MPI_Irecv(&numbers[3], 1, MPI_INT, (rank + 2) % size, 3, comm, &both[1]);
    if (options.kills.empty()) {
      for (int i = 1; i <= 2; ++i) MPI_Send(&rank, 1, MPI_INT, (rank + size - i) % size, 3, comm);
      MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    } else {
      CHECK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE) != MPI_SUCCESS && role == FENIX_ROLE_SURVIVOR_RANK);
      CHECK(Fenix_check_cancelled(&done, MPI_STATUS_IGNORE) == 0 && numbers[1] == 7);
      CHECK(Fenix_check_cancelled(&never, MPI_STATUS_IGNORE) == 1);
    }
  }
  double value = rank;
  for (int i = 0; i < options.steps; ++i) CHECK(step(i, value) == MPI_SUCCESS);
  say(value);
  Fenix_Finalize();
}

void detect() {
  static double value;
  INIT("Fenix_init");
  if (role == FENIX_ROLE_INITIAL_RANK) {
    perhaps_die("begin");
    if (!options.kills.empty()) {
      while (Fenix_Process_detect_failures(0) == MPI_SUCCESS) usleep(1000);  // no other call of MPI
      Fenix_Process_detect_failures(1);
      CHECK(!"it has returned");
    }
  }
  CHECK(Fenix_Process_detect_failures(1) == MPI_SUCCESS);
  value = rank_now();
  for (int i = 0; i < options.steps; ++i) CHECK(step(i, value) == MPI_SUCCESS);
  say(value);
  Fenix_Finalize();
}

void unhandled() {
  INIT("Fenix_init");
  int number = 0;
  CHECK(Fenix_set_option(FENIX_UNHANDLED_MODE, FENIX_UNHANDLED_SILENT) == FENIX_SUCCESS);
  CHECK(MPI_Send(&number, 1, MPI_INT, 1000, 1, comm) != MPI_SUCCESS);
  CHECK(Fenix_set_option(FENIX_UNHANDLED_MODE, FENIX_UNHANDLED_PRINT) == FENIX_SUCCESS);
  CHECK(MPI_Send(&number, 1, MPI_INT, 1000, 1, comm) != MPI_SUCCESS);
  MPI_Barrier(comm);
  if (rank_now() == 0) result("errors are returned");
  Fenix_Finalize();
}

void refusals() {
  int flag, number, *list;
  unsigned option;
  CHECK(Fenix_Initialized(&flag) == FENIX_SUCCESS && !flag);
  CHECK(Fenix_Finalize() == FENIX_ERROR_UNINITIALIZED && strstr(fenix_last_error(), "Fenix_Init"));
  CHECK(Fenix_get_number_of_ranks_with_role(0, &number) == FENIX_ERROR_UNINITIALIZED);
  CHECK(Fenix_Process_fail_list(&list) == FENIX_ERROR_UNINITIALIZED);
  CHECK(Fenix_Callback_pop() == FENIX_ERROR_UNINITIALIZED);
  CHECK(Fenix_set_option(static_cast<Fenix_Setting_name>(9), 0) == FENIX_ERROR_INVALID_SETTING_NAME);
  CHECK(Fenix_get_option(FENIX_RESUME_MODE, nullptr) == FENIX_ERROR_NOCATEGORY);
  CHECK(Fenix_set_option(FENIX_RESUME_MODE, 9) == FENIX_ERROR_INVALID_SETTING_OPTION);
  CHECK(Fenix_get_option(FENIX_RESUME_MODE, &option) == FENIX_SUCCESS && option == FENIX_RESUME_JUMP);
  options.spares = 1000;
  INIT("Fenix_init");
  CHECK(error == FENIX_ERROR_NOCATEGORY && comm == MPI_COMM_NULL && strstr(fenix_last_error(), "1000 spares"));
  options.spares = 0;
  INIT("somewhere");
  CHECK(error == FENIX_ERROR_INVALID_SETTING_OPTION && strstr(fenix_last_error(), "NO_JUMP"));
  if (MPI_Comm world; MPI_Comm_rank(MPI_COMM_WORLD, &number) == MPI_SUCCESS && number == 0) {
    MPI_Comm_dup(MPI_COMM_SELF, &world);
    MPI_Comm_free(&world);
  }
  if (number == 0) result("refusals name the way out");
}

void seven() {
  static double value;
  CHECK(Fenix_set_option(FENIX_RESUME_MODE, FENIX_RESUME_JUMP) == FENIX_SUCCESS);
  if (options.spawn) CHECK(Fenix_set_option(FENIX_RECOVERY_MODE, FENIX_RECOVERY_SPAWN) == FENIX_SUCCESS);
  Fenix_Init(&role, MPI_COMM_WORLD, &comm, &argument_count, &arguments, options.spares, &error);
  int second_role, second_error;
  MPI_Comm second;
  fenix_enter_(&second_role, MPI_COMM_WORLD, &second, nullptr, nullptr, 0, 0, MPI_INFO_NULL, &second_error, nullptr);
  CHECK(second_error == FENIX_ERROR_INVALID_LOGIC_CALL);
  CHECK(Fenix_set_option(FENIX_RECOVERY_MODE, FENIX_RECOVERY_REPAIR) == FENIX_ERROR_INVALID_SETTING_OPTION);
  value = rank_now();
  for (int i = 0; i < options.steps; ++i) CHECK(step(i, value) == MPI_SUCCESS);
  say(value);
  CHECK(Fenix_Finalize() == FENIX_SUCCESS);
  int flag;
  CHECK(Fenix_Finalized(&flag) == FENIX_SUCCESS && flag);
  CHECK(Fenix_Process_detect_failures(0) == FENIX_ERROR_UNINITIALIZED);
}
