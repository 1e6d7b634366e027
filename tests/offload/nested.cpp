// SPDX-License-Identifier: GPL-2.0-only
// Boosters that are masters themselves.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <vector>

#include "modes.h"

namespace {

void square(const double *x, double *y, int n, int fatal) {
  if (fatal && first("inner-" + std::to_string(fatal))) die();
  for (int i = 0; i < n; ++i) y[i] = x[i] * x[i] + 0.5;
}

/** A booster gives each half to a booster of its own. */
void halves(const double *x, double *y, int n, int inner_fatal, int outer_fatal) {
  croff::group inner(MPI_COMM_SELF, 1, 2);
  const int half = n / 2;
  for (int i = 0; i < 2; ++i)
    croff::task(croff::onto(inner, i), croff::recover, croff::in(x + i * half, half), croff::out(y + i * half, half), square, half,
                i == 1 ? inner_fatal : 0);
  if (outer_fatal && first("outer-" + std::to_string(outer_fatal))) die();
  croff::taskwait();
  inner.free();
}

void note_pid_and_stay(int *x) {
  std::ofstream("pid-" + std::to_string(getpid())) << getpid();
  std::ofstream("pids", std::ios::app) << getpid() << std::endl;
  if (first("stay"))
    for (;;) {
    }  // it computes: no call of MPI tells it of anything
  ++*x;
}

void with_a_child(int *x) {
  croff::group inner(MPI_COMM_SELF, 1, 1);
  const bool dies = access("first-stay", F_OK) != 0;
  croff::task(croff::onto(inner, 0), croff::recover, croff::inout(x, 1), note_pid_and_stay);
  if (dies) {
    while (access("pids", F_OK) != 0) usleep(10000);
    usleep(200000);
    die();
  }
  croff::taskwait();
}

}  // namespace

void recursion() {
  const int n = 1000, inner_fatal = argument(1, 0), outer_fatal = argument(2, 0);
  croff::group boosters(MPI_COMM_SELF, 1, 2);
  std::vector<double> x(2 * n), y(2 * n);
  for (int i = 0; i < 2 * n; ++i) x[i] = 0.1 * i;
  for (int i = 0; i < 2; ++i)
    croff::task(croff::onto(boosters, i), croff::recover, croff::in(&x[i * n], n), croff::out(&y[i * n], n), halves, n, i == 0 ? inner_fatal : 0,
                i == 1 ? outer_fatal : 0);
  croff::taskwait();
  for (int i = 0; i < 2 * n; ++i) CHECK(y[i] == x[i] * x[i] + 0.5);
  boosters.free();
  printf("boosters have boosters\n");
}

void nested() {
  const int n = 1000;
  const std::string stop = word(1, "stop");
  croff::group boosters(MPI_COMM_SELF, 1, 2);
  std::vector<double> x(2 * n), y(2 * n);
  for (int step = 0; access(stop.c_str(), F_OK) != 0; ++step) {
    for (int i = 0; i < 2 * n; ++i) x[i] = 0.1 * i + step;
    for (int i = 0; i < 2; ++i)
      croff::task(croff::onto(boosters, i), croff::recover, croff::in(&x[i * n], n), croff::out(&y[i * n], n), halves, n, 0, 0);
    croff::taskwait();
    for (int i = 0; i < 2 * n; ++i) CHECK(y[i] == x[i] * x[i] + 0.5);
    croff_counts counts;
    croff_count(&counts);
    printf("step %d after %lu replacements\n", step, counts.replacements);
  }
  boosters.free();
  printf("boosters have boosters\n");
}

void parricide() {
  croff::group boosters(MPI_COMM_SELF, 1, 1);
  int x = 1;
  croff::task(croff::onto(boosters, 0), croff::recover, croff::inout(&x, 1), with_a_child);
  croff::taskwait();
  CHECK(x == 2);
  boosters.free();
  std::ifstream pids("pids");
  int pid = 0, count = 0;
  for (; pids >> pid; ++count) {
    int turns = 0;
    while (kill(pid, 0) == 0 && ++turns < 500) usleep(10000);
    CHECK(turns < 500);
  }
  CHECK(count == 2);
  printf("the child of the lost booster is gone\n");
}
