// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The target of a request, and the check of the caller's access to it. */
#include <sys/types.h>

#include "libcr.h"

namespace reprise::api {

/** Whether @p scope is one of CR_SCOPE_*. */
bool valid_scope(int scope);
/** Whether the target exists; of a session always true. @param target 0: the caller's own process, group or session */
bool target_exists(cr_scope_t scope, pid_t target);

/** Whether @p pid is one of the target's processes. @param target not 0 */
bool target_includes(cr_scope_t scope, pid_t target, pid_t pid);

/** The target of a request. If it is one other process, its /proc/PID/mem is open. */
class Target {
 public:
  Target() = default;
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  /** Find the target and check the access to it. @return 0, or ESRCH, EPERM, EACCES or another errno of open(2) */
  int find(cr_scope_t scope, pid_t target);
  pid_t id() const { return id_; }       ///< pid, process group or session
  bool self() const { return self_; }    ///< the target is this process alone
  bool includes_self() const { return includes_self_; }  ///< this process is one of the targets
  int mem() const { return mem_; }       ///< /proc/PID/mem of one other process, else -1

 private:
  pid_t id_ = 0;
  bool self_ = false, includes_self_ = false;
  int mem_ = -1;
};

}  // namespace reprise::api
