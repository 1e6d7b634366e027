// SPDX-License-Identifier: LGPL-2.1-or-later
// The tasks of a booster: their memory, from the order until the outputs are fetched.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "wire.h"

namespace croff {

class Desk {
 public:
  using Read = std::function<void(std::byte *data, std::size_t bytes)>;
  using Write = std::function<void(const std::byte *data, std::size_t bytes)>;

  explicit Desk(std::function<void(const Work &)> execute) : execute_(std::move(execute)) {}

  /** Read what belongs to the order, and execute the task. @return what to tell the master. If memory was too little, not all may
   *  have been read: the master replaces the group then */
  wire::Notice execute(int master, const wire::Order &order, const Read &read);
  /** Write the outputs of a task, and forget it. @return false: there is no such task */
  bool deliver(int master, TaskId task, const Write &write);
  void discard(int master, TaskId task) { kept_.erase({master, task}); }

 private:
  using Buffer = std::unique_ptr<std::byte, void (*)(void *)>;
  struct Memory {
    std::vector<wire::Region> regions;
    std::vector<Buffer> data;
  };

  const std::function<void(const Work &)> execute_;
  std::map<std::pair<int, TaskId>, Memory> kept_;
};

}  // namespace croff
