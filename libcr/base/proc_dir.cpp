// SPDX-License-Identifier: LGPL-2.1-or-later
#include "base/proc_dir.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/error.h"

namespace reprise {

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

}  // namespace reprise
