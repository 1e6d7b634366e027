// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/read_exactly.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "image/system_error.h"

namespace reprise::image {

void read_exactly(int fd, const std::string& name, std::uint64_t offset, void* buf, std::size_t len) {
  char* to = static_cast<char*>(buf);
  while (len > 0) {
    const ssize_t got = ::pread(fd, to, std::min<std::size_t>(len, 1U << 30), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system(name, "reading failed", errno);
    if (got == 0)
      throw Error(Failure::permanent, EBADMSG, name + ": was cut short; use another image or take a new checkpoint");
    to += got;
    offset += static_cast<std::uint64_t>(got);
    len -= static_cast<std::size_t>(got);
  }
}

}  // namespace reprise::image
