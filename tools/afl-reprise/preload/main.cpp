// SPDX-License-Identifier: GPL-2.0-only
// libafl-reprise.so. In the process that afl-fuzz starts as fork server it executes the server instead; in the targets that
// the server starts it finds where runs begin and end; everywhere else it does nothing.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "breakpoint.h"
#include "exit.h"
#include "itself.h"
#include "run.h"

extern char** environ;

namespace reprise::afl {
namespace {

void become_server(char** argv, int argc) {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
  char** words = static_cast<char**>(std::calloc(static_cast<std::size_t>(argc) + 3, sizeof *words));
  if (length <= 0 || !words) return;
  path[length] = 0;
  words[0] = const_cast<char*>(AFL_SERVER_PATH);
  words[1] = path;
  std::memcpy(words + 2, argv, static_cast<std::size_t>(argc) * sizeof *words);
  if (const char* const preload = std::getenv("LD_PRELOAD")) ::setenv(kPreload, preload, 1);
  ::unsetenv("LD_PRELOAD");
  ::execve(AFL_SERVER_PATH, words, environ);
  // afl-fuzz reports that the fork server has ended.
  static constexpr char kFailed[] = "afl-reprise: cannot execute " AFL_SERVER_PATH "\n";
  ::syscall(SYS_write, STDERR_FILENO, kFailed, sizeof kFailed - 1);
  ::syscall(SYS_exit_group, 1);
}

void become_target(const char* where) {
  ::unsetenv(kServer);
  for (const int fd : {kGo, kNews, kSession}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  open_room();
  watch_exits();
  if (std::strcmp(where, kAtAccept) == 0) return set_target(At::accept);
  if (where[0] != '=') return set_target(At::input);
  set_target(At::function);
  begin_at_function(where + 1, std::getenv(kOffset));
}

__attribute__((constructor)) void load(int argc, char** argv) {
  const char* where = std::getenv(kAt);
  if (!where) return;
  if (const char* server = std::getenv(kServer)) {
    if (std::atoi(server) == ::getppid()) become_target(where);
  } else if (::getenv("__AFL_SHM_ID") && ::fcntl(kRequests, F_GETFD) >= 0 && ::fcntl(kAnswers, F_GETFD) >= 0) {
    become_server(argv, argc);
  }
}

}  // namespace
}  // namespace reprise::afl
