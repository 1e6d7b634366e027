// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/targets.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/proc_stat.h"


namespace reprise::api {
namespace {

/** @return @p target; for 0 the caller's own process, process group or session */
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
    // A session may outlive its leader; the helper checks its members.
    case CR_SCOPE_SESS: return true;
    default: return alive(id);
  }
}

bool target_includes(cr_scope_t scope, pid_t target, pid_t pid) {
  switch (scope) {
    case CR_SCOPE_PROC: return pid == target;
    case CR_SCOPE_PGRP: return getpgid(pid) == target;
    case CR_SCOPE_SESS: return getsid(pid) == target;
    case CR_SCOPE_TREE: break;
  }
  // Ancestors may exit and their pids be reused meanwhile: limit the number of steps.
  for (int steps = 0; pid > 0 && steps < 10'000; ++steps) {
    if (pid == target) return true;
    const auto stat = proc_stat(pid);
    pid = stat && !stat->ended() ? stat->ppid : 0;
  }
  return false;
}

Target::~Target() {
  if (mem_ >= 0) close(mem_);
}

int Target::find(cr_scope_t scope, pid_t target) {
  id_ = resolve(scope, target);
  if (!target_exists(scope, target)) return ESRCH;
  const pid_t me = getpid();
  includes_self_ = target_includes(scope, id_, me);
  if (scope != CR_SCOPE_PROC) return 0;
  self_ = includes_self_;
  if (self_) return 0;
  // Open it here, so that the kernel checks the caller's access to the target, not the helper's.
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/mem", id_);
  mem_ = open(path, O_RDWR | O_CLOEXEC);
  if (mem_ >= 0) return 0;
  return errno == ENOENT ? ESRCH : errno;
}

}  // namespace reprise::api
