// SPDX-License-Identifier: GPL-2.0-only
// Groups with two masters: domains that both have tasks of, and a failure that concerns both.
#include <stdexcept>

#include "modes.h"

namespace {

void add_or_die(int *x, int value, int fatal) {
  if (fatal && first("shared-" + std::to_string(fatal))) die();
  *x = 3 * *x + value;
}

void throw_it(int *) { throw std::runtime_error("the file has another format"); }

void wait_for_the_other(int *x) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Recv(x, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

}  // namespace

void shared_domains() {
  const int fatal = argument(1, 0);
  int rank, masters, x = 1, y = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &masters);
  CHECK(masters == 2);
  croff::group boosters(MPI_COMM_WORLD, 1, 2);
  // Master 0 has domain 1 and then 2, master 1 the other way round: no master alone sees that they wait for each other.
  croff::task(croff::onto(boosters, rank), croff::recover(rank == 0 ? 1 : 2), croff::inout(&x, 1), add_or_die, 5, 0);
  croff::task(croff::onto(boosters, rank), croff::recover(rank == 0 ? 2 : 1), croff::inout(&x, 1), add_or_die, 7, rank == 1 ? fatal : 0);
  croff::taskwait();
  CHECK(x == 3 * 8 + 7);
  // One master has nothing to do; without recover nothing is waited for.
  if (rank == 0) croff::task(croff::onto(boosters, 1), croff::no_recover, croff::inout(&y, 1), add_or_die, 1, 0);
  croff::taskwait();
  CHECK(y == (rank == 0 ? 4 : 1));
  // A task of master 0 fails; one of master 1 waits for a message of it.
  if (rank == 0) {
    croff::task(croff::onto(boosters, 0), croff::recover, croff::inout(&y, 1), throw_it);
    CHECK(refused("another format", [] { croff::taskwait(); }) == CROFF_ERR_TASK);
  } else {
    croff::task(croff::onto(boosters, 1), croff::recover, croff::inout(&y, 1), wait_for_the_other);
    CHECK(refused("another master", [] { croff::taskwait(); }) == CROFF_ERR_TASK);
  }
  croff::task(croff::onto(boosters, rank), croff::recover, croff::inout(&x, 1), add_or_die, 2, 0);
  croff::taskwait();
  CHECK(x == 3 * 31 + 2);
  boosters.free();
  if (rank == 0) printf("masters agree\n");
}
