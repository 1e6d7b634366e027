// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Reading small files and links of /proc/PID without looking the path up again each time. */
#include <optional>
#include <string>

#include <sys/stat.h>
#include <sys/types.h>

#include "base/unique_fd.h"

namespace reprise {

/** One directory below /proc, held open. */
class ProcDir {
 public:
  /** /proc/@p pid/@p below. Throws Error (temporary: gone, or not allowed). */
  explicit ProcDir(pid_t pid, const std::string& below = "");
  /** Any directory. */
  explicit ProcDir(const std::string& path);
  /** Content of a file, whatever its length. Throws Error. */
  std::string read(const std::string& name) const;
  /** As read; nothing when it cannot be read. */
  std::optional<std::string> try_read(const std::string& name) const;
  /** Target of a link; "" when it cannot be read. */
  std::string link(const std::string& name) const;
  /** stat of what a link leads to. @return false when it is gone */
  bool stat(const std::string& name, struct ::stat& out) const;
  int fd() const { return dir_.get(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd dir_;
};

/** A whole file of /proc. Throws Error. */
std::string read_proc(const std::string& path);

/** @return what follows @p key (as "Umask:") in a file of such lines, without blanks around it; "" if absent */
std::string proc_field(const std::string& text, const std::string& key);

}  // namespace reprise
