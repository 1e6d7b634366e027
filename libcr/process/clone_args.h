// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Making processes and threads with chosen ids. */
#include <cstdint>
#include <ctime>
#include <string>

#include <sys/types.h>
#include <unistd.h>

namespace reprise {

/** The kernel's struct clone_args up to set_tid_size, which some C libraries' headers lack. */
struct CloneArgs {
  std::uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size;
};

/**
 * Waits for an id whose process has ended but which the kernel has not freed yet.
 * operator() waits 10 ms and returns true. It returns false if the id is in use, or after 100 calls.
 */
class IdSoonFree {
 public:
  bool operator()(pid_t id) {
    if (::access(("/proc/" + std::to_string(id)).c_str(), F_OK) == 0 || patience_-- <= 0) return false;
    const timespec moment{0, 10'000'000};
    ::nanosleep(&moment, nullptr);
    return true;
  }

 private:
  int patience_ = 100;
};

}  // namespace reprise
