// SPDX-License-Identifier: LGPL-2.1-or-later
// From the error to the place where the program goes on.
#pragma once

#include <mpi.h>
#include <setjmp.h>

namespace fnx {

extern "C" void fenix_live_error(MPI_Comm *comm, int *error, ...);   // on communicators of now
extern "C" void fenix_stale_error(MPI_Comm *comm, int *error, ...);  // on those of before a recovery

/** Where the program wants to know what has become of it. */
struct Outputs {
  int *role;
  MPI_Comm *newcomm;
  int *error;
  jmp_buf *point;
  MPI_Fint *fortran = nullptr;  // newcomm for Fortran
};
void set_outputs(const Outputs &outputs);
/** Write them. */
void publish();

using Callback = void (*)(MPI_Comm, int, void *);
void add_callback(Callback function, void *data);
bool drop_callback();
void drop_all_callbacks();

/**
 * Recover from a failure, and go on as the resume mode says.
 * @param error MPI's, that has told of it
 * @return it, with FENIX_RESUME_RETURN
 */
int recover(int error);
/** The second half, if the recovery was elsewhere. */
int resume(int error);

}  // namespace fnx
