// SPDX-License-Identifier: LGPL-2.1-or-later
// Data of any rank that has stored it, also of one that is lost: Fenix_Data_member_restore_from_rank.
#pragma once

#include <optional>

#include "group.h"

namespace fnx {

struct Fetched {
  Shape shape;
  std::vector<std::byte> data;
};

/**
 * Collective over the group's communicator.
 * @param image  this rank's own of the snapshot; NULL if it has none
 * @param source the rank that had stored what this rank wants, in the communicator of then
 * @return nothing if the data is lost. @throw Failure
 */
std::optional<Fetched> fetch(Group &group, const ImagePointer &image, int source);

}  // namespace fnx
