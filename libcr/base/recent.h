// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Which of many numbered things were used last. */
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace reprise {

class Recent {
 public:
  explicit Recent(std::size_t most) : most_(most) {}
  /** Note that @p number is used. @return a number that is not one of the recent ones any more */
  std::optional<std::uint64_t> use(std::uint64_t number) {
    forget(number);
    numbers_.push_front(number);
    if (numbers_.size() <= most_) return std::nullopt;
    const std::uint64_t last = numbers_.back();
    numbers_.pop_back();
    return last;
  }
  void forget(std::uint64_t number) { std::erase(numbers_, number); }

 private:
  std::size_t most_;
  std::deque<std::uint64_t> numbers_;  // the latest first
};

}  // namespace reprise
