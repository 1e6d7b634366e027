// SPDX-License-Identifier: LGPL-2.1-or-later
// Parts of MPI that not every MPI has, and texts of errors.
#pragma once

#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include <string>

namespace croff::calls {

inline std::string text(int error) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  return std::string(text, length);
}

/** Pending transfers end, where MPI can do that. The boosters are dead: elsewhere the errors of dead peers end them. */
inline void revoke(MPI_Comm comm) {
#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI
  MPIX_Comm_revoke(comm);
#else
  (void)comm;
#endif
}

}  // namespace croff::calls
