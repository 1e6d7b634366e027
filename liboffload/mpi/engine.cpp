// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mpi/engine.h"

#include "group.h"
#include "server.h"
#include "spawn.h"

namespace croff {
namespace {

class MpiEngine : public Engine {
 public:
  bool is_booster() const override { return booster_lifeline().has_value(); }
  [[noreturn]] void serve(const std::function<void(const Work &)> &execute) override { Server(execute).run(); }
  std::unique_ptr<Group> allocate(MPI_Comm masters, int hosts, int per_host) override {
    return std::make_unique<MpiGroup>(masters, hosts, per_host);
  }
};

}  // namespace

std::unique_ptr<Engine> make_mpi_engine() { return std::make_unique<MpiEngine>(); }

}  // namespace croff
