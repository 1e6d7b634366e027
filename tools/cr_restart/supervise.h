// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Represent the restarted process for the caller of cr_restart: forward signals and exit as it exits. */
#include <csignal>
#include <vector>

#include <sys/types.h>

namespace reprise::tool {

class Supervisor {
 public:
  /** Block the forwarded signals until wait(). Construct it before any thread starts: threads inherit the mask. */
  Supervisor();
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /** @return the signal mask before the constructor */
  const sigset_t& before() const { return old_; }
  /** Forward signals to @p pid until it ends. @return its exit status; if a signal killed it, dies of that signal */
  int wait(pid_t pid);
  /**
   * Forward signals to all of @p pids until they have ended; one that stops is left alone.
   * @return 0 if all exit with 0, else the exit status of the first that fails; if a signal killed that one, dies of it
   */
  int wait_for_all(std::vector<pid_t> pids);

 private:
  sigset_t old_{}, watched_{};
};

}  // namespace reprise::tool
