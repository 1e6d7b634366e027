// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Measure the phases of a request. */
#include <cstdint>
#include <ctime>

namespace reprise {

class Stopwatch {
 public:
  Stopwatch() : last_(now()) {}
  /** @return ns since construction or the last lap() */
  std::uint64_t lap() {
    const std::uint64_t before = last_;
    return (last_ = now()) - before;
  }
  /** @return CLOCK_MONOTONIC in ns */
  static std::uint64_t now() {
    timespec ts{};
    ::clock_gettime(CLOCK_MONOTONIC, &ts);
    return static_cast<std::uint64_t>(ts.tv_sec) * 1000000000 + static_cast<std::uint64_t>(ts.tv_nsec);
  }

 private:
  std::uint64_t last_;
};

}  // namespace reprise
