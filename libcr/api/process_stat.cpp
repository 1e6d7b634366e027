// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/process_stat.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace reprise::api {

std::uint64_t start_time_of(pid_t pid) {
  char path[32], text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  if (got <= 0) return 0;
  text[got] = '\0';
  // The name, in parentheses, may hold anything; the state follows its last one.
  const char* at = std::strrchr(text, ')');
  if (at == nullptr || at[1] == '\0' || at[2] == 'Z' || at[2] == 'X') return 0;
  for (int field = 2; field < 22; ++field) {
    at = std::strchr(at + 1, ' ');
    if (at == nullptr) return 0;
  }
  return std::strtoull(at, nullptr, 10);
}

}  // namespace reprise::api
