// SPDX-License-Identifier: LGPL-2.1-or-later
#include "restore/target_paths.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/proc_dir.h"

namespace reprise {

void TargetPaths::look() const {
  if (looked_) return;
  const ProcDir theirs(pid_), ours(::getpid());
  if (theirs.link("ns/mnt") != ours.link("ns/mnt")) {
    root_.reset(::openat(theirs.fd(), "root", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root_) fail_errno(errno, theirs.path() + "/root");
  }
  looked_ = true;
}

UniqueFd TargetPaths::open(const std::string& path, int flags, mode_t mode) const {
  look();
  if (!root_) return UniqueFd(::open(path.c_str(), flags | O_CLOEXEC, mode));
  struct open_how how = {};
  how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
  how.mode = mode;
  how.resolve = RESOLVE_IN_ROOT;
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, root_.get(), path.c_str(), &how, sizeof how)));
}

}  // namespace reprise
