// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dependencies.h"

#include <algorithm>

namespace croff {

std::vector<TaskId> Dependencies::add(TaskId task, std::vector<Region> regions) {
  std::vector<TaskId> found;
  for (const auto &[other, theirs] : regions_) {
    const bool conflicts = std::any_of(theirs.begin(), theirs.end(), [&](const Region &a) {
      return std::any_of(regions.begin(), regions.end(), [&](const Region &b) { return conflict(a, b); });
    });
    if (conflicts) found.push_back(other);
  }
  if (!regions.empty()) regions_.emplace(task, std::move(regions));
  return found;
}

void Dependencies::remove(TaskId task) { regions_.erase(task); }

}  // namespace croff
