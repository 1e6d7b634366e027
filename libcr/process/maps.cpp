// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/maps.h"

#include <charconv>

#include "base/proc_dir.h"

namespace reprise {

MapNames::MapNames(pid_t pid) : text_(read_proc("/proc/" + std::to_string(pid) + "/maps")) {}

std::string_view MapNames::at(std::uint64_t start) {
  // "start-end perms offset dev inode      name". The lines are sorted by address, and so are the calls.
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
  // The kernel escapes only newlines here and leaves a backslash as it is.
  std::string path(shown);
  for (std::size_t at = 0; (at = path.find("\\012", at)) != std::string::npos; ++at) path.replace(at, 4, "\n");
  return path;
}

}  // namespace reprise
