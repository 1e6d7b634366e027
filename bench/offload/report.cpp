// SPDX-License-Identifier: GPL-2.0-only
#include "report.h"

#include <mpi.h>

#include <cstdio>
#include <cstring>

#include "croff.h"

unsigned long checksum(const std::vector<double> &values, unsigned long before) {
  unsigned long sum = before;
  for (double value : values) {
    unsigned long bits;
    memcpy(&bits, &value, sizeof bits);
    sum = (sum ^ bits) * 0x100000001b3;
    sum ^= sum >> 29;
  }
  return sum;
}

void report(const std::string &name, double seconds, unsigned long sum) {
  croff_counts counts;
  croff_count(&counts);
  printf("%s: %.3f s, %lu tasks, %lu executions, %lu replacements, checksum %016lx\n", name.c_str(), seconds, counts.tasks,
         counts.executions, counts.replacements, sum);
  fflush(stdout);
}

void give_up(const std::string &text) {
  fprintf(stderr, "%s\n", text.c_str());
  MPI_Abort(MPI_COMM_WORLD, 2);
  __builtin_unreachable();
}

std::vector<std::string> words(int argc, char **argv) {
  std::vector<std::string> all(argv + 1, argv + argc);
  if (!all.empty() && all.back().rfind("croff-booster@", 0) == 0) all.pop_back();
  return all;
}
