// SPDX-License-Identifier: GPL-2.0-only
// afl-server: afl-fuzz's fork server for a target that is rolled back instead of forked. The preloaded library executes it in
// the process that afl-fuzz has started, with the path of the target's executable and its argv.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "fork_server.h"
#include "symbol.h"

using namespace reprise;
using namespace reprise::afl;

namespace {

/** Where messages go: to the launcher's standard error. */
int messages() {
  const char* const number = std::getenv(kMessages);
  const int fd = number ? std::atoi(number) : -1;
  return fd >= 0 && ::fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 ? fd : STDERR_FILENO;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const at = std::getenv(kAt);
  const char* const preload = std::getenv(kPreload);
  if (argc < 3 || !at || !preload) {
    std::fprintf(stderr, "afl-server: started by afl-reprise only\n");
    return static_cast<int>(Failure::usage);
  }
  const int to_user = messages();
  for (const int fd : {kRequests, kAnswers}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  std::signal(SIGPIPE, SIG_IGN);
  try {
    Command command{argv[1], {argv + 2, argv + argc}, preload, {}};
    if (at[0] == '=')
      if (const auto offset = find_function(command.program, at + 1)) command.offset = hex(*offset);
    serve_afl(command, to_user);
  } catch (const Error& error) {
    ::dprintf(to_user, "afl-reprise: %s\n", error.what());
    return static_cast<int>(error.kind());
  } catch (const std::exception& error) {
    ::dprintf(to_user, "afl-reprise: %s\n", error.what());
    return static_cast<int>(Failure::permanent);
  }
  return 0;
}
