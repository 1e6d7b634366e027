// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image.h"

#include <libcr.h>

#include <atomic>

#include "find_services.h"

namespace croff::image {
namespace {

std::atomic<std::uint64_t> count{0};
std::atomic<bool> restarted{false};

/** In libcr's thread. */
int around_checkpoint(void *) {
  const int result = cr_checkpoint(CR_CHECKPOINT_READY);
  if (result < 0 || result == CR_CONTINUED) return 0;  // another callback refused, or the process runs on
  restarted = result == CR_RESTARTED;
  ++count;
  return 0;
}

/** @return what crtcp does for other libraries; nullptr: it is not there, or no waves are taken */
const cr_rank_services *services_for_waves() {
  const cr_rank_services *services = cr_find_rank_services();
  return services && !services->no_waves() ? services : nullptr;
}

}  // namespace

void pin(MPI_Comm siblings) {
  const cr_rank_services *services = services_for_waves();
  int mine = services != nullptr, all = 0;
  // The wave is taken when all wait for it.
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, siblings);
  // Without a wave the group serves all the same: if a booster is lost, its job begins anew.
  if (all) services->pin_wave(1);
}

void watch() {
  static const bool registered = cr_init() >= 0 && cr_register_callback(around_checkpoint, nullptr, CR_THREAD_CONTEXT) >= 0;
  (void)registered;  // without the module nobody rolls it back
}

std::uint64_t rollbacks() { return count; }
bool was_restarted() { return restarted; }

}  // namespace croff::image
