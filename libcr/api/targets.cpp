// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/targets.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace reprise::api {
namespace {

/** The caller's own for 0. */
pid_t resolve(cr_scope_t scope, pid_t target) {
  if (target != 0) return target;
  switch (scope) {
    case CR_SCOPE_PGRP: return getpgrp();
    case CR_SCOPE_SESS: return getsid(0);
    default: return getpid();
  }
}

bool alive(pid_t pid) { return kill(pid, 0) == 0 || errno != ESRCH; }

}  // namespace

bool valid_scope(int scope) { return scope >= CR_SCOPE_PROC && scope <= CR_SCOPE_TREE; }

bool target_exists(cr_scope_t scope, pid_t target) {
  const pid_t id = resolve(scope, target);
  switch (scope) {
    case CR_SCOPE_PGRP: return alive(-id);
    // A session may outlive its leader; the helper looks at its members.
    case CR_SCOPE_SESS: return true;
    default: return alive(id);
  }
}

Target::~Target() {
  if (mem_ >= 0) close(mem_);
}

int Target::find(cr_scope_t scope, pid_t target) {
  id_ = resolve(scope, target);
  if (!target_exists(scope, target)) return ESRCH;
  const pid_t me = getpid();
  switch (scope) {
    case CR_SCOPE_PROC: includes_self_ = id_ == me; break;
    case CR_SCOPE_PGRP: includes_self_ = id_ == getpgrp(); break;
    case CR_SCOPE_SESS: includes_self_ = id_ == getsid(0); break;
    case CR_SCOPE_TREE: includes_self_ = id_ == me; break;
  }
  if (scope != CR_SCOPE_PROC) return 0;
  self_ = includes_self_;
  if (self_) return 0;
  // Opened here: whoever may touch the target is the caller, not the helper.
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/mem", id_);
  mem_ = open(path, O_RDWR | O_CLOEXEC);
  if (mem_ >= 0) return 0;
  return errno == ENOENT ? ESRCH : errno;
}

}  // namespace reprise::api
