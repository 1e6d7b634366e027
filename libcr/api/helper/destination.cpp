// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/helper/destination.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "process/scope.h"

namespace reprise::api {
namespace {

/** @return the path of the open file @p fd, "" when it has none (any more) */
std::string name_of(int fd) {
  std::error_code ignored;
  const std::string name = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), ignored);
  struct stat open_file {}, named {};
  const bool same = !name.empty() && name[0] == '/' && ::fstat(fd, &open_file) == 0 &&
                    ::stat(name.c_str(), &named) == 0 && open_file.st_dev == named.st_dev &&
                    open_file.st_ino == named.st_ino;
  return same ? name : "";
}

}  // namespace

std::string name_of(const UniqueFd& fd) { return name_of(fd.get()); }

Destination::Destination(const UniqueFd& fd, std::string path)
    : fd_(fd), path_(std::move(path)), fd_given_(static_cast<bool>(fd)) {
  if (!fd_given_) return;
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw Error(Failure::usage, EBADF, "cr_fd is not open");
  directory_ = S_ISDIR(status.st_mode);
  if (directory_ || S_ISREG(status.st_mode)) path_ = name_of(fd.get());
  named_ = !path_.empty();
  if (directory_ && !named_) throw Error(Failure::usage, ENOENT, "the directory of cr_fd has been removed");
}

void Destination::put(CheckpointOptions& options) const {
  options.image_fd = -1;
  if (directory_)
    options.image = path_ + "/" + context_name(options.pid);
  else if (!fd_given_)
    options.image = path_.empty() ? context_name(options.pid) : path_ + "." + std::to_string(options.pid);
  else
    options.image = path_;
  if (fd_given_ && !directory_ && !named_) options.image_fd = fd_.get();
}

}  // namespace reprise::api
