// SPDX-License-Identifier: LGPL-2.1-or-later
#include "base/fault.h"

#ifdef REPRISE_FAULTS
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

#include "calls.h"

namespace fnx {

void fault(const char *point) {
  static std::map<std::string, int> times;
  const char *faults = getenv("FENIX_FAULT"), *files = getenv("FENIX_FAULT_FILES");
  if (!faults || !files) return;
  const std::string now =
      std::string(point) + ":" + std::to_string(rank_in(MPI_COMM_WORLD)) + ":" + std::to_string(++times[point]);
  std::istringstream list(faults);
  for (std::string one; std::getline(list, one, ',');) {
    if (one != now) continue;
    const int fd = open((files + ("-" + now)).c_str(), O_CREAT | O_EXCL, 0600);
    if (fd < 0) continue;
    close(fd);
    kill(getpid(), SIGKILL);
  }
}

}  // namespace fnx
#endif
