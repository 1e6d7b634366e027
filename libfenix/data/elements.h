// SPDX-License-Identifier: LGPL-2.1-or-later
// Elements of a datatype: in the program's memory as MPI describes them, in the library one after another without gaps.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>

#include "subset/subset.h"

namespace fnx {

class Elements {
 public:
  Elements() = default;
  /** @throw Error(member_create) if it is not committed, or of a size that this library does not take */
  explicit Elements(MPI_Datatype type);
  /** Of whose type only this is known: a recovered rank has not named it yet. */
  Elements(std::size_t bytes, bool dense) : bytes_(bytes), dense_(dense) {}

  std::size_t bytes() const { return bytes_; }  // of one, in the library
  bool dense() const { return dense_; }         // they are the same in the program's memory
  MPI_Datatype type() const { return type_; }   // or MPI_DATATYPE_NULL
  /** Copies need the type if they are not dense. */
  bool can_copy() const { return dense_ || type_ != MPI_DATATYPE_NULL; }
  void collect(const void *from, const Subset &subset, std::span<std::byte> to) const;
  void spread(std::span<const std::byte> from, const Subset &subset, void *to) const;

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  std::size_t bytes_ = 0;
  MPI_Aint extent_ = 0;
  bool dense_ = true;
};

}  // namespace fnx
