// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Pid namespaces for copies of a process, one for each. The first process of a namespace (pid_namespaces(7)) is one of
 * ours, `cr_init`, since the copy needs the id that the image has. It waits for the end of the copy and ends too, and with
 * it whatever the copy has left in the namespace.
 */
#include <vector>

#include <sys/types.h>

#include "base/unique_fd.h"

namespace reprise {

class PidNamespaces {
 public:
  /** Make @p number namespaces. Throws Error refused (EPERM: only root may), temporary. */
  explicit PidNamespaces(unsigned number);
  /** The namespaces end with all that is in them, unless they were released. */
  ~PidNamespaces() = default;
  PidNamespaces(const PidNamespaces&) = delete;
  PidNamespaces& operator=(const PidNamespaces&) = delete;

  /** @return a pidfd of the first process of namespace @p index: setns(2) takes it */
  int fd(std::size_t index) const { return all_[index].init.get(); }
  /** From now on each namespace lasts as long as its copy. @param pid  of the copies in their namespaces */
  void release(pid_t pid);

 private:
  struct Namespace {
    UniqueFd init;  ///< pidfd
    UniqueFd tell;  ///< its end tells cr_init that we have failed
  };
  std::vector<Namespace> all_;
};

}  // namespace reprise
