// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "image/system_error.h"

namespace reprise::image {

UniqueFd spool_file(const std::string& name) {
  const char* set = std::getenv("TMPDIR");
  const std::string dir = set && *set ? set : "/tmp";
  UniqueFd fd(::open(dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd) {
    std::string path = dir + "/reprise-XXXXXX";
    fd.reset(::mkostemp(path.data(), O_CLOEXEC));
    if (!fd) throw_system(name, "no temporary file in " + dir, errno);
    ::unlink(path.c_str());
  }
  return fd;
}

void write_all(int fd, const std::string& name, const char* data, std::size_t len) {
  constexpr std::size_t most = 1UL << 30;
  while (len > 0) {
    const ssize_t put = ::write(fd, data, std::min(len, most));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw_system(name, "writing failed", errno);
    data += put;
    len -= static_cast<std::size_t>(put);
  }
}

void read_all(int from, const std::string& name, const std::function<void(const char* data, std::size_t len)>& use) {
  std::vector<char> buffer(1 << 20);
  for (;;) {
    const ssize_t got = ::read(from, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system(name, "reading failed", errno);
    if (got == 0) return;
    use(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace reprise::image
