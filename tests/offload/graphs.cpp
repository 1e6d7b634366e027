// SPDX-License-Identifier: GPL-2.0-only
// Dependencies by regions, recovery domains, clearance.
#include <unistd.h>

#include <vector>

#include "modes.h"

namespace {

void fill(int *a, int n, int value) {
  for (int i = 0; i < n; ++i) a[i] = value + i;
}

void add(const int *a, int *b, int n) {
  for (int i = 0; i < n; ++i) b[i] = 3 * b[i] + a[i];
}

void add_once_dying(const int *a, int *b, int n, int fatal) {
  if (fatal && first("add-" + std::to_string(fatal))) die();
  add(a, b, n);
}

croff_counts counted() {
  croff_counts counts;
  croff_count(&counts);
  return counts;
}

/** Boosters meet in MPI: their tasks run at the same time. */
void meet(int *sum, int value, int from, int to) {
  int rank, got = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int other = rank == from ? to : from;
  MPI_Sendrecv(&value, 1, MPI_INT, other, 7, &got, 1, MPI_INT, other, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  *sum += 10 * got + value;
}

/** The second booster of both dies at the end, when the first one may have finished: its inout is as before. */
void meet_and_die(int *sum, int value) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  meet(sum, value, 0, 1);
  FILE *log = fopen(("runs-" + std::to_string(rank)).c_str(), "a");
  fputs("x", log);
  fclose(log);
  if (rank != 1 || !first("meet")) return;
  sleep(1);
  die();
}

long size_of(const std::string &name) {
  FILE *file = fopen(name.c_str(), "r");
  if (!file) return 0;
  fseek(file, 0, SEEK_END);
  const long size = ftell(file);
  fclose(file);
  return size;
}

}  // namespace

void chain() {
  const int n = argument(1, 5000), boosters_there = argument(2, 3), fatal = argument(3, 0);
  croff::group boosters(MPI_COMM_SELF, 1, boosters_there);
  std::vector<int> a(n), b(n, 1), c(n, 2), a2(n), b2(n, 1), c2(n, 2);
  for (int round = 0; round < 5; ++round) {
    // a → b → c → b (part) → a, on different boosters; the next round writes what this one has read.
    croff::task(croff::onto(boosters, 0), croff::recover, croff::out(a.data(), n), fill, n, round);
    croff::task(croff::onto(boosters, 1 % boosters_there), croff::recover, croff::in(a.data(), n), croff::inout(b.data(), n), add_once_dying, n,
                round == 1 ? fatal : 0);
    croff::task(croff::onto(boosters, 2 % boosters_there), croff::recover, croff::in(b.data(), n), croff::inout(c.data(), n), add, n);
    croff::task(croff::onto(boosters, 0), croff::recover, croff::in(c.data() + n / 4, n / 2), croff::inout(b.data() + n / 2, n / 2),
                add_once_dying, n / 2, round == 3 ? 2 * fatal : 0);
    croff::task(croff::onto(boosters, 1 % boosters_there), croff::recover, croff::in(b.data(), n), croff::inout(a.data(), n), add, n);
    fill(a2.data(), n, round);
    add(a2.data(), b2.data(), n);
    add(b2.data(), c2.data(), n);
    add(c2.data() + n / 4, b2.data() + n / 2, n / 2);
    add(b2.data(), a2.data(), n);
  }
  croff::taskwait();
  CHECK(a == a2 && b == b2 && c == c2);
  boosters.free();
  printf("all is as it was computed alone\n");
}

void domains() {
  const int fatal = argument(1, 0);
  croff::group boosters(MPI_COMM_SELF, 1, 2);
  // Domain 1 and 2 meet each other's boosters in the opposite order: with clearance of each alone, none would be cleared.
  std::vector<int> x(4, 5), data(4, 1);
  const auto add_to = [&](int booster, int domain, int element, int dies) {
    croff::task(croff::onto(boosters, booster), croff::recover(domain), croff::in(&data[element], 1), croff::inout(&x[element], 1),
                add_once_dying, 1, dies);
  };
  add_to(0, 1, 0, 0);
  add_to(1, 2, 1, 0);
  add_to(0, 2, 2, fatal);
  add_to(1, 1, 3, 2 * fatal);
  croff::taskwait();
  CHECK((x == std::vector<int>(4, 16)));
  CHECK(counted().merges >= 1);
  // A dependency within an explicit domain, between two boosters; and a circle of domains by dependencies.
  int a = 1, b = 1, c = 1;
  croff::task(croff::onto(boosters, 0), croff::recover(7), croff::in(data.data(), 1), croff::inout(&a, 1), add_once_dying, 1, 0);
  croff::task(croff::onto(boosters, 1), croff::recover(7), croff::in(&a, 1), croff::inout(&b, 1), add_once_dying, 1, 3 * fatal);
  croff::task(croff::onto(boosters, 0), croff::recover(8), croff::in(&b, 1), croff::inout(&c, 1), add_once_dying, 1, 0);
  croff::task(croff::onto(boosters, 1), croff::recover(7), croff::in(&c, 1), croff::inout(&a, 1), add_once_dying, 1, 4 * fatal);
  croff::taskwait();
  CHECK(b == 3 + 4 && c == 3 + 7 && a == 3 * 4 + 10);
  boosters.free();
  printf("no domain waits for ever\n");
}

void peers() {
  const int fatal = argument(1, 0);
  croff::group boosters(MPI_COMM_SELF, 1, 2);
  // Three tasks one after the other on each booster are one domain: the later ones get what the earlier ones have put out, and
  // nothing of it is seen before the last one has finished.
  std::vector<int> one(100, 1), x(100, 0), y(100, 0);
  for (int i = 0; i < 3; ++i) {
    croff::task(croff::onto(boosters, 0), croff::recover(3), croff::in(one.data(), 100), croff::inout(x.data(), 100), add_once_dying, 100,
                i == 2 ? fatal : 0);
    croff::task(croff::onto(boosters, 1), croff::recover(3), croff::in(one.data(), 100), croff::inout(y.data() + 10 * i, 50), add_once_dying,
                50, i == 1 ? 2 * fatal : 0);
  }
  croff::taskwait();
  CHECK((x == std::vector<int>(100, 13)));
  std::vector<int> expected(100, 0);
  for (int i = 0; i < 3; ++i) add(one.data(), expected.data() + 10 * i, 50);
  CHECK(y == expected);
  boosters.free();
  printf("sequential peers are one\n");
}

void clearance() {
  croff::group boosters(MPI_COMM_SELF, 1, 3);
  int x = 1, y = 2, z = 3, alone = 0;
  const int one = 1;
  croff::task(croff::onto(boosters, 0), croff::recover, croff::inout(&x, 1), meet_and_die, 4);
  croff::task(croff::onto(boosters, 1), croff::recover, croff::inout(&y, 1), meet_and_die, 5);
  croff::task(croff::onto(boosters, 2), croff::recover(9), croff::in(&one, 1), croff::inout(&alone, 1), add, 1);
  croff::task(croff::onto(boosters, 0), croff::recover, croff::in(&y, 1), croff::inout(&z, 1), add, 1);
  croff::taskwait();
  CHECK(x == 1 + 54 && y == 2 + 45 && z == 9 + 47 && alone == 1);
  // Booster 0 had finished its task, and has executed it again.
  CHECK(size_of("runs-0") == 2 && size_of("runs-1") == 2);
  boosters.free();
  printf("what had finished was executed again\n");
}
