// SPDX-License-Identifier: LGPL-2.1-or-later
// The masters of a group, and their consensus: reductions, of which a single master needs none.
#pragma once

#include <mpi.h>

#include <array>

#include "engine/engine.h"

namespace croff {

class Masters {
 public:
  explicit Masters(MPI_Comm comm);
  ~Masters();
  Masters(const Masters &) = delete;
  Masters &operator=(const Masters &) = delete;

  MPI_Comm comm() const { return comm_; }
  int size() const { return size_; }
  bool first() const { return rank_ == 0; }
  /** Blocking: it is so on all masters. @throw Error(masters) */
  bool everywhere(bool here) { return !highest(!here); }
  /** Blocking. @return the highest value of any master. @throw Error(masters) */
  int highest(int here);
  /** See Group::agree(). */
  std::optional<Votes> agree(const std::function<Votes()> &mine);

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int size_ = 1, rank_ = 0;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::array<std::int64_t, Votes::count> mine_{}, all_{};
};

}  // namespace croff
