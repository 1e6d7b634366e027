// SPDX-License-Identifier: LGPL-2.1-or-later
// Waiting without a processor of one's own: first by yielding, then by sleeping longer and longer.
#pragma once

#include <sched.h>
#include <time.h>

#include <algorithm>

namespace fnx {

class Idle {
 public:
  void wait() {
    if (++turns_ < 100) {
      sched_yield();
      return;
    }
    const long us = std::min(20L + 5L * (turns_ - 100), 2000L);
    timespec time{0, us * 1000};
    nanosleep(&time, nullptr);
  }

 private:
  int turns_ = 0;
};

}  // namespace fnx
