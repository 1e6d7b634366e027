// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/file_identity.h"

#include <string_view>

namespace reprise {

void fill_file(File& file, const std::string& link, const struct ::stat& status) {
  constexpr std::string_view mark = " (deleted)";
  std::string path = link;
  if (path.size() > mark.size() && std::string_view(path).substr(path.size() - mark.size()) == mark) {
    // A file may really be called so: then it is found under that name.
    struct ::stat named;
    const bool literal =
        ::stat(path.c_str(), &named) == 0 && named.st_dev == status.st_dev && named.st_ino == status.st_ino;
    if (!literal) {
      path.resize(path.size() - mark.size());
      file.set_deleted(true);
    }
  }
  file.set_path(path);
  file.set_dev(status.st_dev);
  file.set_ino(status.st_ino);
  file.set_size(static_cast<std::uint64_t>(status.st_size));
  file.set_mtime_ns(status.st_mtim.tv_sec * 1'000'000'000LL + status.st_mtim.tv_nsec);
  file.set_mode(status.st_mode);
  file.set_rdev(status.st_rdev);
}

}  // namespace reprise
