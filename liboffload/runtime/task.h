// SPDX-License-Identifier: LGPL-2.1-or-later
// A task as its master knows it.
#pragma once

#include <memory>
#include <vector>

#include "base/access.h"
#include "base/code.h"
#include "engine/engine.h"
#include "graph/domains.h"
#include "graph/states.h"

namespace croff {

struct Task {
  TaskId id = 0;
  GroupId group = 0;
  int booster = 0;
  bool recover = true;
  std::int64_t order = 0;  // of its implicit domain
  CodeReference code;
  std::vector<std::byte> values;
  std::vector<Region> regions;

  State state = State::held;
  bool leaving = false;  // its inputs are on the way, perhaps even though it has finished
  bool stale = false;  // it is to be executed again, but its booster, which is not lost, still has it
  std::vector<TaskId> depends_on, dependents;
  TaskId before = 0, after = 0;  // neighbours on the booster, 0: none

  /** Memory for each region: of inputs until they are sent, of outputs until they are cleared. Empty: the program's own. */
  std::vector<std::unique_ptr<std::byte[]>> inputs, outputs;
};

}  // namespace croff
