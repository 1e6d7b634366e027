// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Names of mappings, which only /proc/PID/maps has. */
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace reprise {

/** The last column of /proc/PID/maps, by address. */
class MapNames {
 public:
  /** Reads the file once. Throws Error if it cannot be read. */
  explicit MapNames(pid_t pid);
  /** @return the name of the mapping that begins at @p start, "" if none. Callers must pass ascending addresses. */
  std::string_view at(std::uint64_t start);

 private:
  std::string text_;
  std::size_t next_ = 0;
};

/** @return the path that a maps file shows with "\012" for each newline */
std::string unescape_path(std::string_view shown);

}  // namespace reprise
