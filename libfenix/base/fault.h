// SPDX-License-Identifier: LGPL-2.1-or-later
// For tests (REPRISE_FAULTS): a process kills itself at a point of the library.
#pragma once

namespace fnx {

/**
 * Points: shrunk, spawned, gathered, split, met, stored, committing, committed, repairing, repaired; with the engine reprise also waiting,
 * back (in Fenix_Init). FENIX_FAULT is a list
 * "POINT:RANK:N,…": the process with this rank in its MPI_COMM_WORLD dies when it comes to the point for the Nth time. Each fault
 * happens once in a job: a file FENIX_FAULT_FILES-… tells.
 */
#ifdef REPRISE_FAULTS
void fault(const char *point);
#else
inline void fault(const char *) {}
#endif

}  // namespace fnx
