// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Names of mappings: the one thing that only /proc/PID/maps tells. */
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace reprise {

/** What /proc/PID/maps shows in its last column, by address. */
class MapNames {
 public:
  /** Reads it once. Throws Error when it cannot be read. */
  explicit MapNames(pid_t pid);
  /** Name of the mapping that begins at @p start, "" when it has none. Ask with growing addresses. */
  std::string_view at(std::uint64_t start);

 private:
  std::string text_;
  std::size_t next_ = 0;
};

/** A path as maps files show it: with "\012" for a newline. @return the path itself */
std::string unescape_path(std::string_view shown);

}  // namespace reprise
