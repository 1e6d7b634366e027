// SPDX-License-Identifier: LGPL-2.1-or-later
#include "base/proc_dir.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/text.h"

namespace reprise {
namespace {

/** @return the whole content, or nothing with errno set. read(2) returns files such as maps one page at a time. */
std::optional<std::string> read_all(int fd) {
  std::string text;
  for (std::size_t used = 0;;) {
    if (text.size() < used + 4096) text.resize(std::max<std::size_t>(4096, text.size() * 2));
    const ssize_t got = ::read(fd, text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    used += static_cast<std::size_t>(got);
    if (got > 0) continue;
    text.resize(used);
    return text;
  }
}

}  // namespace

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
  const UniqueFd file(::openat(dir_.get(), name.c_str(), O_RDONLY | O_CLOEXEC));
  return file ? read_all(file.get()) : std::nullopt;
}

std::string read_proc(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  auto text = file ? read_all(file.get()) : std::nullopt;
  if (!text) throw Error(Failure::permanent, errno, "cannot read " + path + ": " + error_text(errno));
  return std::move(*text);
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
