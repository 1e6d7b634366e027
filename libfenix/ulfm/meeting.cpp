// SPDX-License-Identifier: LGPL-2.1-or-later
#include "meeting.h"

#include <algorithm>

#include "process/calls.h"

namespace fnx {

bool active_lost(const World &world) {
  for (int rank : failed_in(world.all))
    if (world.slots[rank] >= 0) return true;
  return false;
}

bool no_active_left(const World &world) {
  std::vector<int> slots = world.slots;
  for (int rank : failed_in(world.all)) slots[rank] = kSpare;
  return std::all_of(slots.begin(), slots.end(), [](int slot) { return slot < 0; });
}

Next meet(const World &world, Next mine) {
  constexpr int kRecover = static_cast<int>(Next::recover), kFinalize = static_cast<int>(Next::finalize);
  MPIX_Comm_revoke(world.all);  // spares wait for this
  for (;;) {
    int flags = world.is_spare() ? kRecover | kFinalize : static_cast<int>(mine);
    if (active_lost(world)) flags &= kRecover;  // its work may be lost
    const int error = MPIX_Comm_agree(world.all, &flags);
    if (flags != kFinalize) return Next::recover;
    if (error == MPI_SUCCESS) return Next::finalize;
    // Somebody has failed, a spare or an active rank, of whom not all have known: look again with this knowledge.
    int acknowledged;
    MPIX_Comm_ack_failed(world.all, size_of(world.all), &acknowledged);
  }
}

}  // namespace fnx
