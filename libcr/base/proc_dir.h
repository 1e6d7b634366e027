// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Read small files and links of /proc/PID without a path lookup each time. */
#include <optional>
#include <string>

#include <sys/stat.h>
#include <sys/types.h>

#include "base/unique_fd.h"

namespace reprise {

/** An open directory below /proc. */
class ProcDir {
 public:
  /** Open /proc/@p pid/@p below. Throws Error: permanent, ESRCH when the process has exited; else as fail_errno(). */
  explicit ProcDir(pid_t pid, const std::string& below = "");
  /** Open the directory @p path. Throws Error. */
  explicit ProcDir(const std::string& path);
  /** @return the whole content of the file @p name. Throws Error. */
  std::string read(const std::string& name) const;
  /** As read(), but returns nothing when the file cannot be read. */
  std::optional<std::string> try_read(const std::string& name) const;
  /** @return the target of the symbolic link @p name; "" when it cannot be read */
  std::string link(const std::string& name) const;
  /** stat(2) of @p name, following links. @return false on failure */
  bool stat(const std::string& name, struct ::stat& out) const;
  int fd() const { return dir_.get(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd dir_;
};

/** @return the whole content of the file @p path. Throws Error (permanent). */
std::string read_proc(const std::string& path);

/** @return the value after @p key (such as "Umask:") at the start of a line, without blanks around it; "" if absent */
std::string proc_field(const std::string& text, const std::string& key);

}  // namespace reprise
