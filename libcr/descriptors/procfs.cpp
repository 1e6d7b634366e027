// SPDX-License-Identifier: LGPL-2.1-or-later
#include "descriptors/procfs.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace reprise {

void fail_errno(int code, const std::string& what) {
  throw Error(code == ENOSPC || code == EAGAIN || code == EMFILE || code == ENFILE || code == ENOMEM
                  ? Failure::temporary
                  : Failure::permanent,
              code, what + ": " + std::strerror(code));
}

ProcDir::ProcDir(const std::string& path) : path_(path) {
  dir_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir_) fail_errno(errno, path_);
}

ProcDir::ProcDir(pid_t pid, const std::string& below) : path_("/proc/" + std::to_string(pid)) {
  if (!below.empty()) path_ += "/" + below;
  dir_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (dir_) return;
  const int code = errno;
  if (code == ENOENT || code == ESRCH)
    throw Error(Failure::permanent, ESRCH, "process " + std::to_string(pid) + " is gone");
  fail_errno(code, path_);
}

std::optional<std::string> ProcDir::try_read(const std::string& name) const {
  UniqueFd file(::openat(dir_.get(), name.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string text;
  std::array<char, 4096> part;
  for (;;) {
    const ssize_t n = ::read(file.get(), part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(n));
  }
}

std::string ProcDir::read(const std::string& name) const {
  auto text = try_read(name);
  if (!text) fail_errno(errno, path_ + "/" + name);
  return std::move(*text);
}

std::string ProcDir::link(const std::string& name) const {
  std::array<char, 4096> target;
  const ssize_t n = ::readlinkat(dir_.get(), name.c_str(), target.data(), target.size());
  return n < 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(n));
}

bool ProcDir::stat(const std::string& name, struct ::stat& out) const {
  return ::fstatat(dir_.get(), name.c_str(), &out, 0) == 0;
}

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

std::string proc_field(const std::string& text, const std::string& key) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    if (text.compare(at, key.size(), key) == 0) {
      std::size_t from = text.find_first_not_of(" \t", at + key.size());
      if (from == std::string::npos || from >= end) return {};
      std::size_t to = text.find_last_not_of(" \t", end - 1);
      return text.substr(from, to - from + 1);
    }
    at = end + 1;
  }
  return {};
}

void TargetPaths::look() const {
  if (looked_) return;
  const ProcDir theirs(pid_), ours(::getpid());
  if (theirs.link("ns/mnt") != ours.link("ns/mnt")) {
    root_.reset(::openat(theirs.fd(), "root", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root_) fail_errno(errno, theirs.path() + "/root");
  }
  looked_ = true;
}

UniqueFd TargetPaths::open(const std::string& path, int flags, mode_t mode) const {
  look();
  if (!root_) return UniqueFd(::open(path.c_str(), flags | O_CLOEXEC, mode));
  struct open_how how = {};
  how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
  how.mode = mode;
  how.resolve = RESOLVE_IN_ROOT;
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, root_.get(), path.c_str(), &how, sizeof how)));
}

}  // namespace reprise
