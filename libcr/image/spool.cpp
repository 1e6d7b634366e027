// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/spool.h"

#include <fcntl.h>
#include <unistd.h>

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

void copy_all(int from, int to, const std::string& name) {
  std::vector<char> buffer(1 << 20);
  for (;;) {
    const ssize_t got = ::read(from, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system(name, "reading failed", errno);
    if (got == 0) return;
    for (ssize_t done = 0; done < got;) {
      const ssize_t put = ::write(to, buffer.data() + done, got - done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) throw_system(name, "writing failed", errno);
      done += put;
    }
  }
}

}  // namespace reprise::image
