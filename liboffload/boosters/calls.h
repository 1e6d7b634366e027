// SPDX-License-Identifier: LGPL-2.1-or-later
// Texts of errors of MPI.
#pragma once

#include <mpi.h>

#include <string>

namespace croff::calls {

inline std::string text(int error) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  return std::string(text, length);
}

}  // namespace croff::calls
