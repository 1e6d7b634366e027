// SPDX-License-Identifier: LGPL-2.1-or-later
// Sets of elements of a member: the subsets of the specification. Pure logic.
#pragma once

#include <cstdint>
#include <vector>

namespace fnx {

class Subset {
 public:
  struct Block {
    int first, last;  // both belong to it
    bool operator==(const Block &) const = default;
  };

  Subset() = default;  // empty
  static Subset full();
  /** @throw Error(subset_…) */
  static Subset regular(int blocks, int first, int last, int stride);
  /** @throw Error(subset_…) */
  static Subset irregular(int blocks, const int *firsts, const int *lasts);
  /** Of pairs of numbers, as numbers() gives them. */
  static Subset of(const std::vector<std::int64_t> &numbers);

  /** The elements below `count`, each block by itself even if it was full(). */
  Subset below(int count) const;
  bool covers(int count) const;
  bool empty() const { return !full_ && blocks_.empty(); }
  bool is_full() const { return full_; }
  /** One more than the largest element; 0 for full(), which has none. */
  int end() const { return blocks_.empty() ? 0 : blocks_.back().last + 1; }
  const std::vector<Block> &blocks() const { return blocks_; }  // ascending, with gaps between them
  void add(const Subset &other);
  std::vector<std::int64_t> numbers() const;

 private:
  void tidy();
  bool full_ = false;
  std::vector<Block> blocks_;
};

}  // namespace fnx
