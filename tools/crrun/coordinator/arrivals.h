// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file How late the heartbeats of a node usually come: an accrual failure detector (N. Hayashibara et al., "The φ Accrual
 * Failure Detector", SRDS 2004).
 */
#include <cstdint>
#include <deque>

namespace reprise::job {

class Arrivals {
 public:
  /** A heartbeat has arrived. @param ms monotonic time */
  void beat(std::uint64_t ms);
  /** The last @p ms do not count: the receiver itself was stopped. */
  void excuse(std::uint64_t ms) { last_ms_ += last_ms_ ? ms : 0; }
  /**
   * @return a silence, in ms, that one heartbeat in 10^8 reaches, as far as the recent ones tell (φ = 8), and at least twice
   * the longest recent interval; UINT64_MAX before there are enough of them
   */
  std::uint64_t limit_ms() const;

 private:
  std::deque<std::uint64_t> intervals_ms_;
  std::uint64_t last_ms_ = 0;
};

}  // namespace reprise::job
