// SPDX-License-Identifier: GPL-2.0-only
// What programs have in common that are told on their command line which mode to run.
#pragma once

#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>

struct Mode {
  void (*run)();
  const char *what;
};
extern const std::map<std::string, Mode> kModes;

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);  \
      fflush(stderr);                                                                \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                  \
    }                                                                                \
  } while (0)

/** End this process as a lost node would. */
[[noreturn]] inline void die() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}
