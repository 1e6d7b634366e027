// SPDX-License-Identifier: LGPL-2.1-or-later
// Waiting without a processor of one's own: first by yielding, then by sleeping longer and longer.
#pragma once

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <limits>

namespace croff {

class Idle {
 public:
  /** @param seconds after which it is over */
  explicit Idle(double seconds = std::numeric_limits<double>::infinity()) : until_(now() + seconds) {}
  void reset() { turns_ = 0; }
  bool over() const { return now() >= until_; }
  void wait() {
    if (++turns_ < 100) {
      sched_yield();
      return;
    }
    const long us = std::min(20L + 5L * (turns_ - 100), 1000L);
    timespec time{0, us * 1000};
    nanosleep(&time, nullptr);
  }

 private:
  static double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  double until_;
  int turns_ = 0;
};

}  // namespace croff
