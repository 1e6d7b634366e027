// SPDX-License-Identifier: LGPL-2.1-or-later
// Processes that are started in place of lost ones (the paper's policy SPAWN).
#pragma once

#include <mpi.h>

namespace fnx {

/**
 * Start `count` processes of this program, with its arguments. Collective over `living`.
 * @return a communicator of all, the new ones last; MPI_COMM_NULL in all processes if it has failed. If not, `living` is freed
 */
MPI_Comm spawn(MPI_Comm living, int count);

/** This process was started by spawn(). */
bool is_newcomer();

/**
 * The other side of spawn(), in Fenix_Init. The process ends here if those that have started it have given up.
 * @return the communicator of all
 */
MPI_Comm join();

/** Take the argument away by which spawn() marks a new process. Both may be NULL. */
void hide_mark(int *argc, char ***argv);

}  // namespace fnx
