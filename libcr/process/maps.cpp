// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/maps.h"

#include <cerrno>
#include <charconv>

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace reprise {

std::string read_proc(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw Error(Failure::permanent, errno, "cannot open " + path + ": " + error_text(errno));
  std::string text;
  for (std::size_t used = 0, step = 16384;;) {
    if (text.size() < used + step) text.resize(used + step);
    const ssize_t got = ::read(fd.get(), text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(Failure::permanent, errno, "cannot read " + path + ": " + error_text(errno));
    used += static_cast<std::size_t>(got);
    if (got == 0) {
      text.resize(used);
      return text;
    }
    if (used + 4096 > text.size()) step = text.size();
  }
}

MapNames::MapNames(pid_t pid) : text_(read_proc("/proc/" + std::to_string(pid) + "/maps")) {}

std::string_view MapNames::at(std::uint64_t start) {
  // "start-end perms offset dev inode      name"; lines are sorted, as are our callers' questions.
  while (next_ < text_.size()) {
    std::size_t end = text_.find('\n', next_);
    if (end == std::string::npos) end = text_.size();
    const std::string_view line(text_.data() + next_, end - next_);
    std::uint64_t addr = 0;
    std::from_chars(line.data(), line.data() + line.size(), addr, 16);
    if (addr > start) return {};
    next_ = end + 1;
    if (addr < start) continue;
    std::size_t pos = 0;
    for (int column = 0; column < 5 && pos != std::string_view::npos; ++column) pos = line.find(' ', pos + 1);
    if (pos == std::string_view::npos) return {};
    pos = line.find_first_not_of(' ', pos);
    return pos == std::string_view::npos ? std::string_view{} : line.substr(pos);
  }
  return {};
}

std::string unescape_path(std::string_view shown) {
  // The kernel escapes nothing but newlines here, so that a backslash stands for itself.
  std::string path(shown);
  for (std::size_t at = 0; (at = path.find("\\012", at)) != std::string::npos; ++at) path.replace(at, 4, "\n");
  return path;
}

}  // namespace reprise
