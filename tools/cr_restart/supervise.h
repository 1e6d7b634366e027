// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Standing in for the restarted process: hand signals on, end as it ends. */
#include <csignal>

#include <sys/types.h>

namespace reprise::tool {

class Supervisor {
 public:
  /** From here on signals for the process are kept until wait(). Before there are threads: they must keep them, too. */
  Supervisor();
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /** The signal mask of before. */
  const sigset_t& before() const { return old_; }
  /** Hand signals on to @p pid until it ends. @return its exit status; dies of the signal it died of */
  int wait(pid_t pid);

 private:
  sigset_t old_{}, watched_{};
};

}  // namespace reprise::tool
