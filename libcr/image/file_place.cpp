// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/file_place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <string_view>

namespace reprise::image {

FilePlace place_of(int fd) {
  char path[PATH_MAX];
  const ssize_t len = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  if (len <= 0 || static_cast<std::size_t>(len) == sizeof path) return {};
  const std::string whole(path, static_cast<std::size_t>(len));
  const std::size_t slash = whole.rfind('/');
  struct stat open {}, there {};
  // Compare the files: the name may be that of a removed one, or be of another mount namespace.
  if (slash == whole.npos || ::fstat(fd, &open) != 0 || ::lstat(whole.c_str(), &there) != 0 ||
      open.st_dev != there.st_dev || open.st_ino != there.st_ino)
    return {};
  return {whole.substr(0, std::max<std::size_t>(slash, 1)), whole.substr(slash + 1)};
}

}  // namespace reprise::image
