// SPDX-License-Identifier: LGPL-2.1-or-later
#include "elements.h"

#include <climits>
#include <cstring>

#include "process/calls.h"

namespace fnx {
namespace {

/** MPI counts in int: so many elements at once. */
int portion(long elements, std::size_t bytes) {
  const long most = static_cast<long>(INT_MAX / (bytes ? bytes : 1));
  return static_cast<int>(elements < most ? elements : most);
}

}  // namespace

Elements::Elements(MPI_Datatype type) : type_(type) {
  int size = 0;
  MPI_Aint lower = 0, true_lower = 0, true_extent = 0;
  if (type == MPI_DATATYPE_NULL || MPI_Type_size(type, &size) != MPI_SUCCESS || size < 1)
    throw Error(Code::member_create, "the datatype is MPI_DATATYPE_NULL, or has no or too large elements: pass a committed one");
  MPI_Type_get_extent(type, &lower, &extent_);
  MPI_Type_get_true_extent(type, &true_lower, &true_extent);
  bytes_ = size;
  dense_ = lower == 0 && true_lower == 0 && extent_ == size && true_extent == size;
}

void Elements::collect(const void *from, const Subset &subset, std::span<std::byte> to) const {
  for (const Subset::Block &block : subset.blocks()) {
    const long count = static_cast<long>(block.last) - block.first + 1;
    if (dense_) {
      memcpy(&to[block.first * bytes_], static_cast<const std::byte *>(from) + block.first * bytes_, count * bytes_);
      continue;
    }
    for (long done = 0; done < count;) {
      const int some = portion(count - done, bytes_);
      int position = 0;
      check(MPI_Pack(static_cast<const std::byte *>(from) + (block.first + done) * extent_, some, type_,
                     &to[(block.first + done) * bytes_], static_cast<int>(some * bytes_), &position, MPI_COMM_SELF));
      done += some;
    }
  }
}

void Elements::spread(std::span<const std::byte> from, const Subset &subset, void *to) const {
  for (const Subset::Block &block : subset.blocks()) {
    const long count = static_cast<long>(block.last) - block.first + 1;
    if (dense_) {
      memcpy(static_cast<std::byte *>(to) + block.first * bytes_, &from[block.first * bytes_], count * bytes_);
      continue;
    }
    for (long done = 0; done < count;) {
      const int some = portion(count - done, bytes_);
      int position = 0;
      check(MPI_Unpack(&from[(block.first + done) * bytes_], static_cast<int>(some * bytes_), &position,
                       static_cast<std::byte *>(to) + (block.first + done) * extent_, some, type_, MPI_COMM_SELF));
      done += some;
    }
  }
}

}  // namespace fnx
