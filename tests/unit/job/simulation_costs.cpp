// SPDX-License-Identifier: GPL-2.0-only
#include "simulation_costs.h"

#include <cmath>
#include <ctime>

namespace reprise::job::sim {

std::uint64_t Meter::cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

void Meter::add(Where where, std::uint64_t ns) {
  if (where == Where::disks) {
    sum_.disks_ns += ns;
    return;
  }
  sum_.loop_ns += ns;
  turn_ns_ += ns;
}

std::vector<Rank> neighbours(Rank rank, std::uint32_t ranks, std::uint32_t links) {
  std::vector<Rank> out;
  const auto add = [&](std::int64_t distance) {
    const std::int64_t other = static_cast<std::int64_t>(rank) + distance;
    if (distance && other >= 0 && other < ranks && out.size() < links) out.push_back(static_cast<Rank>(other));
  };
  constexpr std::uint32_t kCube = 26;
  if (links > kCube) {
    for (std::int64_t distance = 1; distance < ranks && out.size() < links; ++distance) add(distance), add(-distance);
    return out;
  }
  const auto edge = std::max<std::int64_t>(3, std::llround(std::cbrt(ranks)));
  for (std::int64_t z = -1; z <= 1; ++z)
    for (std::int64_t y = -1; y <= 1; ++y)
      for (std::int64_t x = -1; x <= 1; ++x) add(x + edge * (y + edge * z));
  return out;
}

}  // namespace reprise::job::sim
