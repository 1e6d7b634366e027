// SPDX-License-Identifier: LGPL-2.1-or-later
// The dependency graph: a task depends on each earlier one with which it has a conflict about a region.
#pragma once

#include <map>
#include <vector>

#include "base/access.h"

namespace croff {

using TaskId = std::uint64_t;  // in the order of submission

class Dependencies {
 public:
  /** @return the tasks on which it depends, in the order of their submission */
  std::vector<TaskId> add(TaskId task, std::vector<Region> regions);
  /** Nobody depends on it any more. */
  void remove(TaskId task);

 private:
  std::map<TaskId, std::vector<Region>> regions_;
};

}  // namespace croff
