// SPDX-License-Identifier: GPL-2.0-only
#include "job/files.h"

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace reprise::job {
void throw_errno(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

std::size_t write_all(int fd, std::string_view content) {
  std::size_t at = 0;
  while (at < content.size()) {
    const ssize_t put = ::write(fd, content.data() + at, content.size() - at);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) break;
    at += static_cast<std::size_t>(put);
  }
  return at;
}

void write_atomically(const std::string& path, std::string_view content, unsigned mode) {
  const std::string part = path + ".part" + std::to_string(::getpid());
  // Never a file that is there already: of an earlier process with this pid, or made by somebody else to own the result.
  ::unlink(part.c_str());
  UniqueFd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd) throw_errno("cannot create " + part);
  try {
    if (write_all(fd.get(), content) < content.size()) throw_errno("cannot write " + part);
    if (::fsync(fd.get()) != 0) throw_errno("cannot sync " + part);
    if (::rename(part.c_str(), path.c_str()) != 0) throw_errno("cannot rename " + part + " to " + path);
  } catch (...) {
    ::unlink(part.c_str());
    throw;
  }
  const std::string directory = std::filesystem::path(path).parent_path();
  sync_directory(directory.empty() ? "." : directory);
}

std::string read_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw_errno("cannot open " + path);
  std::string content;
  char buffer[16384];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got == 0) return content;
    if (got > 0)
      content.append(buffer, static_cast<std::size_t>(got));
    else if (errno != EINTR)
      throw_errno("cannot read " + path);
  }
}

void sync_directory(const std::string& directory) {
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) throw_errno("cannot open " + directory);
  // Some network file systems cannot sync directories and do not need it: they return EINVAL.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) throw_errno("cannot sync " + directory);
}

void make_private_directory(const std::string& path) {
  const std::filesystem::path whole(path);
  if (whole.has_parent_path() && whole.parent_path() != whole.root_path()) {
    struct stat st {};
    if (::stat(whole.parent_path().c_str(), &st) != 0) make_private_directory(whole.parent_path());
  }
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) throw_errno("cannot make the directory " + path);
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0) throw_errno("cannot look at " + path);
  if (!S_ISDIR(st.st_mode)) throw std::runtime_error(path + " exists and is not a directory; remove it");
  if (st.st_uid != ::geteuid())
    throw std::runtime_error(path + " belongs to user " + std::to_string(st.st_uid) + ": remove it, or have it removed");
  if (st.st_mode & 022)
    throw std::runtime_error(path + " can be written by others: make it yours alone (chmod 700), or remove it");
}

}  // namespace reprise::job
