// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Whom a request is about, and the right to touch it. */
#include <sys/types.h>

#include "libcr.h"

namespace reprise::api {

bool valid_scope(int scope);
/** @param target 0: the caller's own process, group or session */
bool target_exists(cr_scope_t scope, pid_t target);

/** Is @p pid one of the processes that are meant? */
bool target_includes(cr_scope_t scope, pid_t target, pid_t pid);

/** The target of a request, opened where it is one other process. */
class Target {
 public:
  Target() = default;
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  /** @return 0, or ESRCH, EPERM, EACCES */
  int find(cr_scope_t scope, pid_t target);
  pid_t id() const { return id_; }       ///< pid, process group or session
  bool self() const { return self_; }    ///< it is just this process
  bool includes_self() const { return includes_self_; }
  int mem() const { return mem_; }       ///< /proc/PID/mem of one other process, else -1

 private:
  pid_t id_ = 0;
  bool self_ = false, includes_self_ = false;
  int mem_ = -1;
};

}  // namespace reprise::api
