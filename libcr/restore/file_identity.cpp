// SPDX-License-Identifier: LGPL-2.1-or-later
#include "restore/file_identity.h"

#include <fcntl.h>

#include <string_view>

namespace reprise {

bool cut_deleted(std::string& link, std::uint64_t inode, const TargetPaths& paths) {
  constexpr std::string_view mark = " (deleted)";
  if (link.size() <= mark.size() || !std::string_view(link).ends_with(mark)) return false;
  // The name of the file may really end in " (deleted)": then the path opens the same inode.
  const UniqueFd literal = paths.open(link, O_PATH | O_NOFOLLOW);
  struct ::stat named;
  if (literal && ::fstat(literal.get(), &named) == 0 && named.st_ino == inode) return false;
  link.resize(link.size() - mark.size());
  return true;
}

void fill_file(File& file, const std::string& link, const struct ::stat& status, const TargetPaths& paths) {
  std::string path = link;
  if (cut_deleted(path, status.st_ino, paths)) file.set_deleted(true);
  file.set_path(path);
  file.set_dev(status.st_dev);
  file.set_ino(status.st_ino);
  file.set_size(static_cast<std::uint64_t>(status.st_size));
  file.set_mtime_ns(status.st_mtim.tv_sec * 1'000'000'000LL + status.st_mtim.tv_nsec);
  file.set_mode(status.st_mode);
  file.set_rdev(status.st_rdev);
}

}  // namespace reprise
