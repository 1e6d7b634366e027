// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Opens files by the paths of a process that may be in another mount namespace. */
#include <string>

#include <sys/types.h>

#include "base/unique_fd.h"

namespace reprise {

/**
 * Opens files by the paths that /proc shows for a process: in our root directory if the process is in our mount
 * namespace, else in its root directory.
 */
class TargetPaths {
 public:
  explicit TargetPaths(pid_t pid) : pid_(pid) {}
  /** As open(2), with our own rights. @return an empty descriptor with errno set on failure */
  UniqueFd open(const std::string& path, int flags, mode_t mode = 0) const;
  /** Open the root directory now instead of at the first open(), which needs permission to trace. Throws Error. */
  void look() const;

 private:
  pid_t pid_;
  mutable bool looked_ = false;
  mutable UniqueFd root_;  // empty: ours
};

}  // namespace reprise
