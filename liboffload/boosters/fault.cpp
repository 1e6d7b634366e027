// SPDX-License-Identifier: LGPL-2.1-or-later
#include "base/fault.h"

#ifdef REPRISE_FAULTS
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace croff {

void fault(const char *point) {
  const char *list = getenv("CROFF_FAULT"), *files = getenv("CROFF_FAULT_FILES");
  if (!list || !files) return;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string all = "," + std::string(list) + ",", here = std::string(point) + ":" + std::to_string(rank);
  const auto listed = [&](const std::string &wanted) { return all.find("," + wanted) != std::string::npos; };
  if (!listed(here + ":")) return;
  int count = 0, file = -1;
  while (file < 0 && count < 1000)
    file = open((std::string(files) + "-" + here + ":" + std::to_string(++count)).c_str(), O_CREAT | O_EXCL, 0600);
  close(file);
  if (listed(here + ":" + std::to_string(count) + ",")) kill(getpid(), SIGKILL);
}

}  // namespace croff
#endif
