// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Making processes and threads with the ids they had. */
#include <cstdint>
#include <ctime>
#include <string>

#include <sys/types.h>
#include <unistd.h>

namespace reprise {

/** As the kernel's struct clone_args up to set_tid_size, which not every C library's headers know. */
struct CloneArgs {
  std::uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size;
};

/**
 * Waits for an id that nobody has any more, and that the kernel is about to give free.
 * @return false when somebody has it, or when that takes too long
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
