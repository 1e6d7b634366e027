// SPDX-License-Identifier: GPL-2.0-only
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <pmix.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "base/descriptor_passing.h"
#include "crd/pmix_process.h"

namespace reprise::crd {
namespace {

/** @return the descriptors that are connected TCP sockets */
std::set<int> connections() {
  std::set<int> found;
  DIR* directory = ::opendir("/proc/self/fd");
  if (!directory) return found;
  while (const dirent* entry = ::readdir(directory)) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
        (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
      found.insert(fd);
  }
  ::closedir(directory);
  return found;
}

}  // namespace

int run_donor(int fd) {
  const std::set<int> before = connections();
  pmix_proc_t me;
  const pmix_status_t status = PMIx_Init(&me, nullptr, 0);
  if (status != PMIX_SUCCESS) {
    std::fprintf(stderr, "the PMIx server refuses a new connection: %s\n", PMIx_Error_string(status));
    return 1;
  }
  int found = -1;
  for (const int one : connections())
    if (!before.count(one)) found = one;
  if (found < 0 || !send_descriptor(fd, found)) {
    std::fprintf(stderr, "a new connection to the PMIx server cannot be handed over\n");
    return 1;
  }
  // This process must not answer for the rank any more. The daemon, which has the connection now, kills it; libpmix's
  // thread here must not run on.
  for (;;) ::pause();
}

}  // namespace reprise::crd
