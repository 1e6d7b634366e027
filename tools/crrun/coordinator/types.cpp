// SPDX-License-Identifier: GPL-2.0-only
#include "types.h"

#include <algorithm>

namespace reprise::job {

std::string redundancy_words(const Redundancy& redundancy) {
  switch (redundancy.kind()) {
    case Redundancy::PARTNER: return "partner:" + std::to_string(redundancy.count());
    case Redundancy::XOR: return "xor:" + std::to_string(redundancy.count());
    default: return "none";
  }
}

std::string rank_list(const std::vector<Rank>& ranks) {
  if (ranks.empty()) return "no rank";
  std::vector<Rank> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  std::string out = sorted.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] <= sorted[last] + 1) ++last;
    if (i) out += ",";
    out += std::to_string(sorted[i]);
    if (sorted[last] != sorted[i]) out += "-" + std::to_string(sorted[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace reprise::job
