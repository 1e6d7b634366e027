// SPDX-License-Identifier: LGPL-2.1-or-later
/** @file fenix_exception.hpp What a call throws after a recovery, with FENIX_RESUME_THROW. */
#pragma once

#include <mpi.h>

#include <exception>

namespace fenix {

struct __attribute__((visibility("default"))) CommException : public std::exception {
  CommException(MPI_Comm repaired, int error) : repaired_comm(repaired), fenix_err(error) {}
  const char *what() const noexcept override { return "ranks have failed; the communicator is repaired"; }
  MPI_Comm repaired_comm;  ///< the new resilient communicator
  int fenix_err;           ///< MPI's error that has told of the failure
};

}  // namespace fenix
