// SPDX-License-Identifier: LGPL-2.1-or-later
// The communicators of process recovery, and how they are built from what is left.
#pragma once

#include <mpi.h>

#include <vector>

#include "roster/roster.h"

namespace fnx {

/** All processes of the resilient job, active ones and spares. */
struct World {
  MPI_Comm all = MPI_COMM_NULL;     // active processes and spares; the library's own
  MPI_Comm active = MPI_COMM_NULL;  // the resilient communicator; MPI_COMM_NULL in a spare
  Identity me;
  Past past;                 // as the next repair needs it
  std::vector<int> slots;    // for each rank of `all`: its rank in the resilient communicator, or kSpare
  std::vector<bool> fresh;   // for each rank of the resilient communicator: it was not active before the latest repair
  std::vector<int> lost;     // by the latest repair: see Plan
  bool depleted = false;     // the latest repair has made the resilient communicator smaller

  bool is_spare() const { return me.slot < 0; }
};

/**
 * Build communicators of the processes of `damaged` that live. All of these call it; it goes on until none fails meanwhile.
 * @param damaged  for a newcomer: what join() has returned
 * @param me       as this process was before
 * @param past     as it was before; newcomers are told it by the others
 * @param spawn    start processes in place of those that spares cannot replace
 * @throw Failure if MPI cannot even shrink
 */
World build(MPI_Comm damaged, Identity me, Past past, bool spawn);

}  // namespace fnx
