// SPDX-License-Identifier: LGPL-2.1-or-later
#include "subset.h"

#include <algorithm>
#include <climits>
#include <string>

#include "base/error.h"

namespace fnx {
namespace {

void check_block(int first, int last) {
  if (first < 0)
    throw Error(Code::subset_start, "a block begins at element " + std::to_string(first) + ": elements are counted from 0");
  if (last < first || last == INT_MAX)
    throw Error(Code::subset_end, "a block begins at element " + std::to_string(first) + " and ends with " + std::to_string(last) +
                                      ": the end is its last element");
}

void check_count(int blocks) {
  if (blocks < 1)
    throw Error(Code::subset_blocks, "a subset of " + std::to_string(blocks) + " blocks: use FENIX_DATA_SUBSET_EMPTY for none");
}

}  // namespace

Subset Subset::full() {
  Subset all;
  all.full_ = true;
  return all;
}

Subset Subset::regular(int blocks, int first, int last, int stride) {
  check_count(blocks);
  check_block(first, last);
  if (blocks > 1 && stride < 1)
    throw Error(Code::subset_stride, "a stride of " + std::to_string(stride) + ": it is the distance between the beginnings of blocks");
  if (last + static_cast<std::int64_t>(blocks - 1) * stride >= INT_MAX)
    throw Error(Code::subset_end, "the last block ends beyond the largest int: use fewer blocks or a smaller stride");
  Subset made;
  for (int i = 0; i < blocks; ++i) made.blocks_.push_back({first + i * stride, last + i * stride});
  made.tidy();
  return made;
}

Subset Subset::irregular(int blocks, const int *firsts, const int *lasts) {
  check_count(blocks);
  if (!firsts) throw Error(Code::subset_start, "array_start_offsets is NULL: pass the first elements of the blocks");
  if (!lasts) throw Error(Code::subset_end, "array_end_offsets is NULL: pass the last elements of the blocks");
  Subset made;
  for (int i = 0; i < blocks; ++i) {
    check_block(firsts[i], lasts[i]);
    made.blocks_.push_back({firsts[i], lasts[i]});
  }
  made.tidy();
  return made;
}

Subset Subset::of(const std::vector<std::int64_t> &numbers) {
  Subset made;
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2)
    made.blocks_.push_back({static_cast<int>(numbers[i]), static_cast<int>(numbers[i + 1])});
  return made;
}

std::vector<std::int64_t> Subset::numbers() const {
  std::vector<std::int64_t> numbers;
  for (const Block &block : blocks_) numbers.insert(numbers.end(), {block.first, block.last});
  return numbers;
}

Subset Subset::below(int count) const {
  Subset cut;
  if (full_) {
    if (count > 0) cut.blocks_.push_back({0, count - 1});
    return cut;
  }
  for (const Block &block : blocks_)
    if (block.first < count) cut.blocks_.push_back({block.first, std::min(block.last, count - 1)});
  return cut;
}

bool Subset::covers(int count) const {
  if (full_ || count <= 0) return true;
  return !blocks_.empty() && blocks_.front().first == 0 && blocks_.front().last >= count - 1;
}

void Subset::add(const Subset &other) {
  full_ |= other.full_;
  blocks_.insert(blocks_.end(), other.blocks_.begin(), other.blocks_.end());
  tidy();
}

void Subset::tidy() {
  if (full_) blocks_.clear();
  std::sort(blocks_.begin(), blocks_.end(), [](const Block &a, const Block &b) { return a.first < b.first; });
  std::vector<Block> joined;
  for (const Block &block : blocks_) {
    if (!joined.empty() && block.first <= joined.back().last + 1)
      joined.back().last = std::max(joined.back().last, block.last);
    else
      joined.push_back(block);
  }
  blocks_ = std::move(joined);
}

}  // namespace fnx
