// SPDX-License-Identifier: LGPL-2.1-or-later
// A booster: it takes orders from all masters and executes one at a time.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "wire.h"

namespace croff {

class Server {
 public:
  explicit Server(std::function<void(const Work &)> execute);
  [[noreturn]] void run();

 private:
  using Buffer = std::unique_ptr<std::byte, void (*)(void *)>;
  /** Memory of a task; from its end until its outputs are fetched. */
  struct Memory {
    std::vector<wire::Region> regions;
    std::vector<Buffer> data;
  };

  void listen(int master);
  void take(int master, const wire::Order &order);
  void execute(int master, const wire::Order &order);
  void deliver(int master, const wire::Order &order);
  void tell(int master, wire::Note note, TaskId task = 0, Code code = Code::ok, const std::string &text = "");
  [[noreturn]] void leave();

  MPI_Comm parent_ = MPI_COMM_NULL;
  const std::function<void(const Work &)> execute_;
  std::vector<wire::Order> orders_;
  std::vector<MPI_Request> requests_;
  std::map<std::pair<int, TaskId>, Memory> kept_;
  int leaving_ = 0;  // masters that have let this booster go
};

}  // namespace croff
