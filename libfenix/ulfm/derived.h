// SPDX-License-Identifier: LGPL-2.1-or-later
// The communicators that the program has derived from the resilient one. They inherit its error handler: so they are found without
// intercepting any call of MPI.
#pragma once

#include <mpi.h>

#include <vector>

namespace fnx {

/** All communicators of this process that have this error handler. */
std::vector<MPI_Comm> with_handler(MPI_Errhandler handler);

/**
 * Revoke them, so that no rank waits in one for a rank that has left it for recovery. From then on they have another error handler,
 * by which errors are seen to be of the time before.
 */
void leave(const std::vector<MPI_Comm> &comms, MPI_Errhandler stale);

}  // namespace fnx
