// SPDX-License-Identifier: LGPL-2.1-or-later
// A booster: it takes orders from all masters and executes one at a time. A rollback brings it back to before the first one.
#pragma once

#include <mpi.h>

#include <vector>

#include "boosters/desk.h"
#include "invitation.h"

namespace croff {

class BoosterServer {
 public:
  explicit BoosterServer(std::function<void(const Work &)> execute) : desk_(std::move(execute)) {}
  [[noreturn]] void run();

 private:
  void wait(int socket, short events);
  void read(int socket, void *data, std::size_t bytes);
  void write(int socket, const void *data, std::size_t bytes);
  void connect();
  void serve();
  void take(int master);
  void tell(int master, const wire::Notice &notice);
  [[noreturn]] void leave();

  Desk desk_;
  MPI_Comm siblings_ = MPI_COMM_NULL;
  std::vector<int> sockets_;  // by master; negative, -1 - SOCKET: it has let this booster go
};

}  // namespace croff
