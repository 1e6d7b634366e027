// SPDX-License-Identifier: GPL-2.0-only
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <pmix.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

#include "base/descriptor_passing.h"
#include "crd/framed.h"
#include "crd/pmix_messages.pb.h"
#include "crd/pmix_process.h"

namespace reprise::crd {
namespace {

/** Seconds after which a donor ends; the daemon does not wait so long. */
constexpr unsigned kLongest = 30;

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

/** Once in a process, which then ends. */
[[noreturn]] void donate(int fd) {
  std::string text;
  PmixDonation donation;
  const UniqueFd memory = receive_descriptor(fd, 0);
  if (!memory || ::lseek(memory.get(), 0, SEEK_SET) != 0 || !read_framed(memory.get(), text) || !donation.ParseFromString(text)) ::_exit(1);
  ::clearenv();
  for (std::string& variable : *donation.mutable_variables()) ::putenv(variable.data());
  const std::set<int> before = connections();
  pmix_proc_t me;
  const pmix_status_t status = PMIx_Init(&me, nullptr, 0);
  if (status != PMIX_SUCCESS) {
    std::fprintf(stderr, "the PMIx server refuses a new connection: %s\n", PMIx_Error_string(status));
    ::_exit(1);
  }
  int found = -1;
  for (const int one : connections())
    if (!before.count(one)) found = one;
  if (found < 0 || !send_descriptor(fd, found)) {
    std::fprintf(stderr, "a new connection to the PMIx server cannot be handed over\n");
    ::_exit(1);
  }
  // This process must not answer for the rank any more: it ends with libpmix's thread, and without PMIx_Finalize.
  ::_exit(0);
}

}  // namespace

int run_donors(int fd) {
  const pid_t own = ::getpid();
  ::signal(SIGCHLD, SIG_IGN);
  for (;;) {
    const UniqueFd socket = receive_descriptor(fd, 0);
    if (!socket && (errno == EMFILE || errno == EINTR)) continue;
    if (!socket) return errno != ECONNRESET;
    // If there is no process, the daemon sees the end of the socket.
    if (::fork() != 0) continue;
    ::signal(SIGCHLD, SIG_DFL);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != own) ::_exit(1);
    ::close(fd);
    ::alarm(kLongest);
    donate(socket.get());
  }
}

}  // namespace reprise::crd
