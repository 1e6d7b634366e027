// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Paths as a process sees them. */
#include <string>

#include <sys/types.h>

#include "base/unique_fd.h"

namespace reprise {

/**
 * Open files by the paths that /proc shows for a process: plainly when it lives in our mount namespace, inside
 * its root otherwise.
 */
class TargetPaths {
 public:
  explicit TargetPaths(pid_t pid) : pid_(pid) {}
  /** As open(2), with the caller's rights (see OnBehalf for others'); @return an empty descriptor with errno set on failure */
  UniqueFd open(const std::string& path, int flags, mode_t mode = 0) const;
  /** Find its root out now rather than at the first open(): that takes the right to trace it. Throws Error. */
  void look() const;

 private:
  pid_t pid_;
  mutable bool looked_ = false;
  mutable UniqueFd root_;  // empty: ours
};

}  // namespace reprise
