// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file A resource limit of another process, raised for a moment. */
#include <sys/resource.h>
#include <sys/types.h>

namespace reprise {

/** Sets the limit back when destroyed. */
class RaisedLimit {
 public:
  /** @param enough  new soft limit; RLIM_INFINITY: as high as the caller may */
  RaisedLimit(pid_t pid, __rlimit_resource resource, rlim_t enough) : pid_(pid), resource_(resource) {
    if (::prlimit(pid, resource, nullptr, &old_) != 0) return;
    const rlimit wide = {enough, enough > old_.rlim_max ? enough : old_.rlim_max}, most = {old_.rlim_max, old_.rlim_max};
    raised_ = ::prlimit(pid, resource, &wide, nullptr) == 0 ||
              (enough == RLIM_INFINITY && ::prlimit(pid, resource, &most, nullptr) == 0);
  }
  ~RaisedLimit() {
    if (raised_) ::prlimit(pid_, resource_, &old_, nullptr);
  }
  RaisedLimit(const RaisedLimit&) = delete;
  RaisedLimit& operator=(const RaisedLimit&) = delete;
  explicit operator bool() const { return raised_; }

 private:
  pid_t pid_;
  __rlimit_resource resource_;
  rlimit old_{};
  bool raised_ = false;
};

}  // namespace reprise
