// SPDX-License-Identifier: LGPL-2.1-or-later
// What a rollback brings back: the moment that the group's job goes back to, and whether this process has gone back.
#pragma once

#include <mpi.h>

#include <cstdint>

namespace croff::image {

/** For boosters, collective: from now on every recovery of their job goes back to this moment. It returns again after each. Where no waves
 *  can be taken it returns at once: the group begins anew after a loss. */
void pin(MPI_Comm siblings);

/** For masters: register with libcr, so that rollbacks() counts. */
void watch();

/** How often this process was rolled back or restarted since watch(). Compare with an earlier value that was rolled back, too. */
std::uint64_t rollbacks();
/** Whether the last time it became a new process. */
bool was_restarted();

}  // namespace croff::image
