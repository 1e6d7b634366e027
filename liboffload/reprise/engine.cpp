// SPDX-License-Identifier: LGPL-2.1-or-later
#include "reprise/engine.h"

#include "group.h"
#include "image.h"
#include "server.h"

namespace croff {
namespace {

class RepriseEngine : public Engine {
 public:
  bool is_booster() const override { return invitation().has_value(); }
  [[noreturn]] void serve(const std::function<void(const Work &)> &execute) override { BoosterServer(execute).run(); }
  std::unique_ptr<Group> allocate(MPI_Comm masters, int hosts, int per_host) override {
    image::watch();
    return std::make_unique<RepriseGroup>(masters, hosts, per_host, leaving_);
  }

 private:
  const std::shared_ptr<LeavingJobs> leaving_ = std::make_shared<LeavingJobs>();
};

}  // namespace

std::unique_ptr<Engine> make_reprise_engine() { return std::make_unique<RepriseEngine>(); }

}  // namespace croff
