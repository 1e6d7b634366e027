// SPDX-License-Identifier: LGPL-2.1-or-later
#include "protection.h"

#include <algorithm>
#include <numeric>

#include "base/idle.h"
#include "cohort/parity.h"

namespace fnx {
namespace {

constexpr std::size_t kSlice = std::size_t{32} << 20;  // bytes of a transfer
constexpr int kTag = 1;

std::vector<Slice> slices(std::size_t unit) {
  std::vector<Slice> all;
  for (std::size_t at = 0; at < unit; at += kSlice) all.push_back({at, std::min(kSlice, unit - at)});
  return all;
}

/** How much of `size` bytes is in a slice. */
int part(std::size_t size, Slice slice) {
  return slice.begin >= size ? 0 : static_cast<int>(std::min(slice.bytes, size - slice.begin));
}

/** Requests that did not end after their communicator was revoked: their memory stays. */
struct Buried {
  std::shared_ptr<Image> image;
  std::vector<std::vector<std::byte>> given;
};
std::vector<Buried> buried;

}  // namespace

Protection::Protection(std::shared_ptr<Image> image, MPI_Comm cohort) : image_(std::move(image)), cohort_(cohort) {
  if (image_->layout->cohort.size() < 2) return;
  try {
    exchange_shapes();
    std::size_t largest = 0;
    for (const Shape &shape : image_->shapes) largest = std::max(largest, shape.bytes());
    image_->parity.resize(parity_bytes(largest, image_->shapes.size()));
    if (image_->shapes.size() == 2)
      begin_copy();
    else
      begin_parity();
  } catch (...) {
    MPIX_Comm_revoke(cohort_);
    throw;
  }
}

void Protection::exchange_shapes() {
  const std::size_t ranks = image_->layout->cohort.size();
  const Shape &own = image_->shape();
  const std::vector<std::int64_t> blocks = own.found.numbers();
  const std::int64_t head[4] = {own.count, own.element, own.dense, static_cast<std::int64_t>(blocks.size())};
  std::vector<std::int64_t> heads(4 * ranks);
  check(MPI_Allgather(head, 4, MPI_INT64_T, heads.data(), 4, MPI_INT64_T, cohort_));
  std::vector<int> counts(ranks), begins(ranks);
  for (std::size_t i = 0; i < ranks; ++i) counts[i] = static_cast<int>(heads[4 * i + 3]);
  std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), 0);
  std::vector<std::int64_t> all(begins.back() + counts.back());
  check(MPI_Allgatherv(blocks.data(), static_cast<int>(blocks.size()), MPI_INT64_T, all.data(), counts.data(), begins.data(),
                       MPI_INT64_T, cohort_));
  for (std::size_t i = 0; i < ranks; ++i)
    image_->shapes[i] = {heads[4 * i], heads[4 * i + 1], heads[4 * i + 2],
                         Subset::of({all.begin() + begins[i], all.begin() + begins[i] + counts[i]})};
}

void Protection::begin_copy() {
  const int other = 1 - image_->layout->index;
  const std::size_t mine = image_->data.size(), theirs = image_->shapes[other].bytes();
  for (const Slice &slice : slices(std::max(mine, theirs))) {
    if (const int bytes = part(theirs, slice)) {
      requests_.push_back(MPI_REQUEST_NULL);
      check(MPI_Irecv(&image_->parity[slice.begin], bytes, MPI_BYTE, other, kTag, cohort_, &requests_.back()));
    }
    if (const int bytes = part(mine, slice)) {
      requests_.push_back(MPI_REQUEST_NULL);
      check(MPI_Isend(&image_->data[slice.begin], bytes, MPI_BYTE, other, kTag, cohort_, &requests_.back()));
    }
  }
}

void Protection::begin_parity() {
  const std::size_t ranks = image_->shapes.size(), unit = image_->parity.size();
  for (const Slice &slice : slices(unit)) {
    given_.push_back(contribution(image_->data, image_->layout->index, ranks, unit, slice));
    requests_.push_back(MPI_REQUEST_NULL);
    check(MPI_Ireduce_scatter_block(given_.back().data(), &image_->parity[slice.begin], static_cast<int>(slice.bytes), MPI_BYTE,
                                    MPI_BXOR, cohort_, &requests_.back()));
  }
}

bool Protection::test() {
  for (MPI_Request &request : requests_) {
    int done = 1;
    if (request != MPI_REQUEST_NULL) check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (!done) return false;
  }
  return true;
}

void Protection::wait() {
  for (MPI_Request &request : requests_) check(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

Protection::~Protection() {
  const auto pending = [this] {
    bool some = false;
    for (MPI_Request &request : requests_) {
      int done = 1;
      if (request != MPI_REQUEST_NULL && MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) done = 1;
      some |= !done;
    }
    return some;
  };
  if (!pending()) return;
  MPIX_Comm_revoke(cohort_);  // what is on its way ends with an error
  const double until = MPI_Wtime() + 2;
  for (Idle idle; pending();) {
    if (MPI_Wtime() > until) {
      buried.push_back({image_, std::move(given_)});
      return;
    }
    idle.wait();
  }
}

std::vector<std::int64_t> describe(const std::vector<Snapshot> &snapshots, const std::shared_ptr<const Layout> &layout) {
  std::vector<std::int64_t> numbers;
  for (const Snapshot &snapshot : snapshots)
    for (const auto &[id, image] : snapshot.members) {
      if (image->layout != layout) continue;
      numbers.insert(numbers.end(), {snapshot.time, id, static_cast<std::int64_t>(image->parity.size())});
      for (const Shape &shape : image->shapes) {
        const std::vector<std::int64_t> blocks = shape.found.numbers();
        numbers.insert(numbers.end(), {shape.count, shape.element, shape.dense, static_cast<std::int64_t>(blocks.size())});
        numbers.insert(numbers.end(), blocks.begin(), blocks.end());
      }
    }
  return numbers;
}

std::vector<Snapshot> described(const std::vector<std::int64_t> &numbers, const std::shared_ptr<const Layout> &layout,
                                Memory *memory) {
  std::vector<Snapshot> snapshots;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const int time = static_cast<int>(at[0]), id = static_cast<int>(at[1]);
    if (snapshots.empty() || snapshots.back().time != time) snapshots.push_back({time, {}});
    auto image = std::make_shared<Image>(memory);
    image->layout = layout;
    image->parity.resize(at[2]);
    at += 3;
    for (std::size_t i = 0; i < layout->cohort.size(); ++i) {
      image->shapes.push_back({at[0], at[1], at[2], Subset::of({at + 4, at + 4 + at[3]})});
      at += 4 + at[3];
    }
    image->data.resize(image->shape().bytes());
    snapshots.back().members[id] = image;
  }
  return snapshots;
}

void rebuild(std::vector<Snapshot> &snapshots, int lost, const std::shared_ptr<const Layout> &layout, MPI_Comm cohort,
             Memory *memory) {
  const int teller = lost ? 0 : 1;
  const bool am_lost = layout->index == lost;
  std::vector<std::int64_t> numbers = am_lost ? std::vector<std::int64_t>{} : describe(snapshots, layout);
  std::int64_t length = static_cast<std::int64_t>(numbers.size());
  if (layout->index == teller) {
    check(MPI_Send(&length, 1, MPI_INT64_T, lost, kTag, cohort));
    check(MPI_Send(numbers.data(), static_cast<int>(length), MPI_INT64_T, lost, kTag, cohort));
  }
  if (am_lost) {
    check(MPI_Recv(&length, 1, MPI_INT64_T, teller, kTag, cohort, MPI_STATUS_IGNORE));
    numbers.resize(length);
    check(MPI_Recv(numbers.data(), static_cast<int>(length), MPI_INT64_T, teller, kTag, cohort, MPI_STATUS_IGNORE));
    snapshots = described(numbers, layout, memory);
  }
  const std::size_t ranks = layout->cohort.size();
  for (Snapshot &snapshot : snapshots)
    for (auto &[id, pointer] : snapshot.members) {
      if (pointer->layout != layout) continue;
      const std::size_t unit = pointer->parity.size();
      for (const Slice &slice : slices(unit)) {
        std::vector<std::byte> blocks = am_lost ? std::vector<std::byte>(ranks * slice.bytes)
                                                : contribution(pointer->data, pointer->parity, layout->index, ranks, unit, slice);
        // Blocks one by one: their sum may be more than MPI can count.
        for (std::size_t i = 0; i < ranks; ++i)
          check(MPI_Reduce(am_lost ? MPI_IN_PLACE : &blocks[i * slice.bytes], am_lost ? &blocks[i * slice.bytes] : nullptr,
                           static_cast<int>(slice.bytes), MPI_BYTE, MPI_BXOR, lost, cohort));
        if (!am_lost) continue;
        Image &image = const_cast<Image &>(*pointer);  // made by described(): nobody else has it yet
        reconstruct(blocks, layout->index, ranks, unit, slice, image.data, image.parity);
      }
    }
}

}  // namespace fnx
