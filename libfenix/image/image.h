// SPDX-License-Identifier: LGPL-2.1-or-later
// What is kept of a member: this rank's elements, and its part of the cohort's redundant data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "cohort/cohort.h"
#include "store/payload.h"
#include "subset/subset.h"

namespace fnx {

/** Who kept redundant data for whom when an image was made. */
struct Layout {
  int ranks = 0, rank = 0;              // of the group's communicator
  std::vector<std::vector<int>> cohorts;
  std::vector<int> cohort;              // ranks of this one's
  int index = 0;                        // of this rank in it
};

/** What a rank has of a member: all of its cohort know it. */
struct Shape {
  std::int64_t count = 0, element = 0;  // number, and bytes of each
  std::int64_t dense = 1;               // see Elements
  Subset found;                         // the elements that were stored
  std::size_t bytes() const { return static_cast<std::size_t>(count) * element; }
};

struct Image {
  /** @param memory where its bytes are; nullptr: on the heap */
  explicit Image(Memory *memory) : data(memory), parity(memory) {}
  std::vector<Shape> shapes;  // for each rank of the cohort
  Payload data;               // all elements; those that were not stored are 0
  Payload parity;             // parity.h
  std::shared_ptr<const Layout> layout;

  const Shape &shape() const { return shapes[layout->index]; }
};

/** Images are not changed once they are complete: snapshots share them. */
using ImagePointer = std::shared_ptr<const Image>;

struct Snapshot {
  int time = 0;
  std::map<int, ImagePointer> members;
};

/** What Fenix_Data_group_create is told. */
struct GroupWish {
  int id = 0, start = 0, depth = 0;
  Policy policy;
};

/** What outlives a recovery of a group. */
struct KeptGroup {
  GroupWish wish;
  int next_time = 0;
  std::shared_ptr<const Layout> layout;
  std::vector<Snapshot> snapshots;  // oldest first
};

}  // namespace fnx
