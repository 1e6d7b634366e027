// SPDX-License-Identifier: GPL-2.0-only
#include "arrivals.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace reprise::job {

namespace {
constexpr std::size_t kWindow = 64, kFew = 8;
/** Of a normal distribution, 10^-8 lies beyond this number of standard deviations. */
constexpr double kDeviations = 5.6;
}  // namespace

void Arrivals::beat(std::uint64_t ms) {
  if (last_ms_ && ms > last_ms_) intervals_ms_.push_back(ms - last_ms_);
  if (intervals_ms_.size() > kWindow) intervals_ms_.pop_front();
  last_ms_ = ms;
}

std::uint64_t Arrivals::limit_ms() const {
  if (intervals_ms_.size() < kFew) return std::numeric_limits<std::uint64_t>::max();
  const auto count = static_cast<double>(intervals_ms_.size());
  double sum = 0, squares = 0;
  std::uint64_t longest = 0;
  for (const std::uint64_t one : intervals_ms_) {
    sum += static_cast<double>(one);
    squares += static_cast<double>(one) * static_cast<double>(one);
    longest = std::max(longest, one);
  }
  const double mean = sum / count, variance = std::max(0.0, squares / count - mean * mean);
  return std::max<std::uint64_t>(static_cast<std::uint64_t>(mean + kDeviations * std::sqrt(variance)), 2 * longest);
}

}  // namespace reprise::job
