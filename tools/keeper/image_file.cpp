// SPDX-License-Identifier: GPL-2.0-only
#include "image_file.h"

#include <sys/stat.h>

#include <cinttypes>
#include <cstdio>

namespace reprise::snapshots {

ImageFile ImageFile::of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
          static_cast<std::int64_t>(status.st_ctim.tv_sec) * 1'000'000'000 + status.st_ctim.tv_nsec};
}

std::string ImageFile::text() const {
  return std::to_string(device) + ':' + std::to_string(inode) + ':' + std::to_string(size) + ':' + std::to_string(changed_ns);
}

ImageFile ImageFile::parse(const std::string& text) {
  ImageFile made;
  int end = -1;
  const int got = std::sscanf(text.c_str(), "%" SCNu64 ":%" SCNu64 ":%" SCNu64 ":%" SCNd64 "%n", &made.device, &made.inode,
                              &made.size, &made.changed_ns, &end);
  return got == 4 && text.size() == static_cast<std::size_t>(end) ? made : ImageFile();
}

}  // namespace reprise::snapshots
