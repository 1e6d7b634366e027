// SPDX-License-Identifier: GPL-2.0-only
// Errors: each names the thing and the way out, and the group stays usable.
#include <stdexcept>
#include <vector>

#include "modes.h"

namespace {

void die_at_once(int *) { die(); }
void throw_it(int *) { throw std::runtime_error("the matrix is singular"); }
void say_it(int *) { croff_fail("no such file"); }
void increment(int *x) { ++*x; }
int other() {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return 1 - rank;
}
void throw_when_the_other_waits(int *x) {
  MPI_Recv(x, 1, MPI_INT, other(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  throw_it(x);
}
void wait_for_the_other(int *x) {
  MPI_Send(x, 1, MPI_INT, other(), 1, MPI_COMM_WORLD);
  MPI_Recv(x, 1, MPI_INT, other(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

}  // namespace

void lost() {
  croff::group boosters(MPI_COMM_SELF, 1, 2);
  int x = 1, y = 2, z = 3;
  croff::task(croff::onto(boosters, 0), croff::no_recover, croff::inout(&x, 1), die_at_once);
  croff::task(croff::onto(boosters, 1), croff::recover, croff::inout(&y, 1), increment);
  croff::task(croff::onto(boosters, 1), croff::recover, croff::inout(&x, 1), increment);  // depends on what is lost
  CHECK(refused("clause recover", [] { croff::taskwait(); }) == CROFF_ERR_LOST);
  CHECK(x == 1 && y == 3);
  croff::task(croff::onto(boosters, 0), croff::no_recover, croff::inout(&z, 1), increment);
  croff::taskwait();
  CHECK(z == 4);
  boosters.free();
  printf("a loss is an error\n");
}

void thrown() {
  croff::group boosters(MPI_COMM_SELF, 1, 2);
  int x = 1, y = 2;
  croff::task(croff::onto(boosters, 0), croff::recover, croff::inout(&x, 1), throw_it);
  CHECK(refused("the matrix is singular", [] { croff::taskwait(); }) == CROFF_ERR_TASK);
  croff::task(croff::onto(boosters, 1), croff::no_recover, croff::inout(&x, 1), say_it);
  CHECK(refused("no such file", [] { croff::taskwait(); }) == CROFF_ERR_TASK);
  // The other one of the domain waits for it: both have failed.
  croff::task(croff::onto(boosters, 0), croff::recover, croff::inout(&x, 1), throw_when_the_other_waits);
  croff::task(croff::onto(boosters, 1), croff::recover, croff::inout(&y, 1), wait_for_the_other);
  CHECK(refused("the matrix is singular", [] { croff::taskwait(); }) == CROFF_ERR_TASK);
  croff::task(croff::onto(boosters, 1), croff::recover, croff::inout(&y, 1), increment);
  croff::taskwait();
  CHECK(x == 1 && y == 3);
  boosters.free();
  printf("tasks may fail\n");
}

void endless() {
  croff::group boosters(MPI_COMM_SELF, 1, 1);
  int x = 1;
  croff::task(croff::onto(boosters, 0), croff::recover, croff::inout(&x, 1), die_at_once);
  CHECK(refused("CROFF_ATTEMPTS", [] { croff::taskwait(); }) == CROFF_ERR_ATTEMPTS);
  croff::task(croff::onto(boosters, 0), croff::recover, croff::inout(&x, 1), increment);
  croff::taskwait();
  CHECK(x == 2);
  boosters.free();
  printf("attempts are counted\n");
}

void refusals() {
  MPI_Comm inter = MPI_COMM_WORLD;
  int x = 0;
  CHECK(deep_booster_alloc(MPI_COMM_SELF, 0, 1, &inter) == CROFF_ERR_ARGUMENT && inter == MPI_COMM_NULL);
  CHECK(deep_booster_alloc(MPI_COMM_NULL, 1, 1, &inter) == CROFF_ERR_ARGUMENT);
  CHECK(deep_booster_free(&inter) == CROFF_ERR_GROUP);
  CHECK(croff_task(MPI_COMM_WORLD, 0, CROFF_RECOVER, nullptr, nullptr, 0, nullptr, 0) == CROFF_ERR_GROUP);
  croff::group boosters(MPI_COMM_SELF, 1, 1);
  const auto task = [&](int rank, int recover, croff_function function, croff_region region) {
    return croff_task(boosters.inter(), rank, recover, function, nullptr, 0, &region, 1);
  };
  const croff_function function = [](void *, void *const *) {};
  CHECK(task(1, CROFF_RECOVER, function, {&x, sizeof x, CROFF_IN}) == CROFF_ERR_ARGUMENT);
  CHECK(task(0, -3, function, {&x, sizeof x, CROFF_IN}) == CROFF_ERR_ARGUMENT);
  CHECK(task(0, CROFF_RECOVER, nullptr, {&x, sizeof x, CROFF_IN}) == CROFF_ERR_FUNCTION);
  CHECK(task(0, CROFF_RECOVER, function, {nullptr, sizeof x, CROFF_IN}) == CROFF_ERR_ARGUMENT);
  CHECK(task(0, CROFF_RECOVER, function, {&x, sizeof x, static_cast<croff_access>(9)}) == CROFF_ERR_ARGUMENT);
  CHECK(task(0, CROFF_RECOVER, function, {nullptr, 0, CROFF_IN}) == CROFF_OK);
  CHECK(std::string(croff_last_error()).find("CROFF_INOUT") != std::string::npos);
  croff::taskwait();
  // Not freed: MPI_Finalize does that.
  new croff::group(std::move(boosters));
  printf("refusals name the way out\n");
}
