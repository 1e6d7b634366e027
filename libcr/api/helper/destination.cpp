// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/helper/destination.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace reprise::api {
namespace {

std::string link_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

/** @return the name of the file that @p fd is open on, "" when it has none (any more) */
std::string name_of(int fd) {
  std::error_code ignored;
  const std::string name = std::filesystem::read_symlink(link_of(fd), ignored);
  struct stat open_file {}, named {};
  const bool same = !name.empty() && name[0] == '/' && ::fstat(fd, &open_file) == 0 &&
                    ::stat(name.c_str(), &named) == 0 && open_file.st_dev == named.st_dev &&
                    open_file.st_ino == named.st_ino;
  return same ? name : "";
}

/** A directory for one file, removed with it. */
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cr-image-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw Error(Failure::temporary, errno, "no temporary directory: " + std::string(std::strerror(errno)));
    path_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string file() const { return path_ + "/image"; }

 private:
  std::string path_;
};

}  // namespace

std::string path_of(const UniqueFd& fd) {
  const std::string name = name_of(fd.get());
  return name.empty() ? link_of(fd.get()) : name;
}

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

void Destination::put(pid_t pid, const std::function<void(const std::string& path)>& write) const {
  const std::string number = std::to_string(pid);
  if (directory_) return write(path_ + "/context." + number);
  if (!fd_given_) return write(path_.empty() ? "context." + number : path_ + "." + number);
  if (named_) return write(path_);
  copy_into(write);
}

void Destination::copy_into(const std::function<void(const std::string& path)>& write) const {
  const Scratch scratch;
  write(scratch.file());
  const UniqueFd from(::open(scratch.file().c_str(), O_RDONLY | O_CLOEXEC));
  for (;;) {
    const ssize_t done = ::sendfile(fd_.get(), from.get(), nullptr, 1 << 20);
    if (done == 0) return;
    if (done < 0 && errno != EINTR)
      throw Error(errno == ENOSPC ? Failure::temporary : Failure::permanent, errno,
                  "the image cannot be written to cr_fd: " + std::string(std::strerror(errno)));
  }
}

}  // namespace reprise::api
