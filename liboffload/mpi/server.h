// SPDX-License-Identifier: LGPL-2.1-or-later
// A booster: it takes orders from all masters and executes one at a time.
#pragma once

#include <vector>

#include "boosters/desk.h"

namespace croff {

class Server {
 public:
  explicit Server(std::function<void(const Work &)> execute);
  [[noreturn]] void run();

 private:
  void listen(int master);
  void take(int master, const wire::Order &order);
  void execute(int master, const wire::Order &order);
  void deliver(int master, const wire::Order &order);
  void tell(int master, const wire::Notice &notice);
  [[noreturn]] void leave();

  MPI_Comm parent_ = MPI_COMM_NULL;
  Desk desk_;
  std::vector<wire::Order> orders_;
  std::vector<MPI_Request> requests_;
  int leaving_ = 0;  // masters that have let this booster go
};

}  // namespace croff
