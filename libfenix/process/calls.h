// SPDX-License-Identifier: LGPL-2.1-or-later
// Calls of MPI on the library's own communicators, which have MPI_ERRORS_RETURN.
#pragma once

#include <mpi.h>

#include <mpi-ext.h>
#include <vector>

#include "base/error.h"

namespace fnx {

inline void check(int error) {
  if (error != MPI_SUCCESS) throw Failure{error};
}

inline int error_class(int error) {
  int found = MPI_ERR_UNKNOWN;
  MPI_Error_class(error, &found);
  return found;
}

/** Errors by which ULFM tells of a failure. */
inline bool tells_failure(int error) {
  const int found = error_class(error);
  return found == MPIX_ERR_PROC_FAILED || found == MPIX_ERR_PROC_FAILED_PENDING || found == MPIX_ERR_REVOKED;
}

/** Whether the launcher has started MPI with ULFM. Without it nobody ever agrees about a communicator that is revoked. */
inline bool has_ulfm() {
  void *value = nullptr;
  int flag = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPIX_FT, &value, &flag);
  return flag && *static_cast<int *>(value);
}

inline bool is_revoked(MPI_Comm comm) {
  int flag = 0;
  return MPIX_Comm_is_revoked(comm, &flag) == MPI_SUCCESS && flag;
}

inline int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

inline int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

/** @return it holds for all, and nobody has failed of whom somebody does not know yet. The same in all processes of `comm`. */
inline bool all_agree(MPI_Comm comm, bool good) {
  int flag = good;
  return MPIX_Comm_agree(comm, &flag) == MPI_SUCCESS && flag;
}

/** Ranks of `comm` that have failed, as far as this process knows. */
inline std::vector<int> failed_in(MPI_Comm comm) {
  MPI_Group failed, all;
  if (MPIX_Comm_get_failed(comm, &failed) != MPI_SUCCESS) return {};
  MPI_Comm_group(comm, &all);
  int count = 0;
  MPI_Group_size(failed, &count);
  std::vector<int> theirs(count), ranks(count);
  for (int i = 0; i < count; ++i) theirs[i] = i;
  if (count) MPI_Group_translate_ranks(failed, count, theirs.data(), all, ranks.data());
  MPI_Group_free(&failed);
  MPI_Group_free(&all);
  return ranks;
}

}  // namespace fnx
