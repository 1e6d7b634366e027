// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file A job that leaves: because of a signal, or before its time in the batch system ends, it takes a last wave and ends when
 * that is in shared storage, so that a later crrun goes on from it.
 *
 *      stays ──begin()──> needs a wave ──> its images are staged ──> may end
 *                              ^  a recovery drops the wave  │
 *                              └─────────────────────────────┘
 */
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "store.h"
#include "types.h"

namespace reprise::job {

class Leaving {
 public:
  /** @param wave this wave or a later one is the last @param why for messages */
  void begin(WaveNumber wave, std::string why) {
    since_ = wave;
    why_ = std::move(why);
  }
  bool any() const { return since_.has_value(); }
  const std::string& why() const { return why_; }
  WaveNumber since() const { return *since_; }
  /** Whether the last wave is still to be taken. */
  bool needs_wave(const Store& store) const { return any() && store.newest().value_or(0) < *since_; }
  bool may_end(const Store& store) const { return any() && store.newest_staged().value_or(0) >= *since_; }

 private:
  std::optional<WaveNumber> since_;
  std::string why_;
};

/** How long it takes from the decision to take a wave until it is in shared storage. */
class LeaveTime {
 public:
  void begun(WaveNumber wave, Now now) {
    if (open_ != wave) open_ = wave, begun_ms_ = now.ms;
  }
  void staged(WaveNumber wave, Now now) {
    if (wave != open_) return;
    longest_ms_ = std::max(longest_ms_, now.ms - begun_ms_);
    open_ = 0;
  }
  /** @return the time to plan with: twice the longest one so far; two minutes before the first wave */
  std::uint64_t needed_ms() const { return longest_ms_ ? 2 * longest_ms_ + kSpareMs : kUnknownMs; }

 private:
  static constexpr std::uint64_t kSpareMs = 20'000, kUnknownMs = 120'000;
  WaveNumber open_ = 0;  ///< the wave whose time is being measured; 0: none
  std::uint64_t begun_ms_ = 0, longest_ms_ = 0;
};

}  // namespace reprise::job
