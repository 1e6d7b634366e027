// SPDX-License-Identifier: LGPL-2.1-or-later
#include "arena.h"

#include <atomic>
#include <cstring>
#include <iterator>
#include <new>

namespace fnx {
namespace {

constexpr std::uint64_t kMagic = 0x31746f72786e66;
constexpr std::size_t kUnit = 64;  // blocks are multiples of it

std::size_t rounded(std::size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

}  // namespace

struct Arena::Head {
  std::uint64_t magic;
  std::atomic<std::uint64_t> index;  // offset of it; 0: there is none. Its first number is how many follow
};

Arena::Arena(void *at, std::size_t bytes) : base_(static_cast<std::byte *>(at)), bytes_(bytes / kUnit * kUnit) {
  static_assert(sizeof(Head) <= kUnit);
  begin_again();
}

Arena::Head &Arena::head() const { return *reinterpret_cast<Head *>(base_); }

std::byte *Arena::find_room(std::size_t bytes) {
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    if (at->second < bytes) continue;
    const std::size_t offset = at->first;
    cut(offset, bytes);
    return base_ + offset;
  }
  return nullptr;
}

std::byte *Arena::take(std::size_t bytes) {
  if (bytes > bytes_) throw std::bad_alloc();
  std::byte *at = find_room(rounded(bytes));
  if (!at && !given_back_.empty() && renewal_) {
    renewal_();
    at = find_room(rounded(bytes));
  }
  if (!at) throw std::bad_alloc();
  return at;
}

void Arena::give_back(std::byte *at, std::size_t bytes) {
  if (bytes) given_back_.push_back({static_cast<std::size_t>(at - base_), rounded(bytes)});
}

/** Take bytes from the free range that has them. @return false: none has */
bool Arena::cut(std::size_t at, std::size_t bytes) {
  auto range = free_.upper_bound(at);
  if (range == free_.begin()) return false;
  --range;
  const std::size_t begin = range->first, end = begin + range->second;
  if (bytes > end - begin || at > end - bytes) return false;
  free_.erase(range);
  if (at > begin) free_[begin] = at - begin;
  if (at + bytes < end) free_[at + bytes] = end - at - bytes;
  return true;
}

void Arena::add(std::size_t at, std::size_t bytes) {
  auto next = free_.lower_bound(at);
  if (next != free_.end() && next->first == at + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == at) {
      before->second += bytes;
      return;
    }
  }
  free_[at] = bytes;
}

void Arena::publish(std::span<const std::int64_t> index) {
  const std::size_t bytes = rounded((index.size() + 1) * sizeof(std::int64_t));
  std::byte *next = bytes > bytes_ ? nullptr : find_room(bytes);
  if (!next) throw std::bad_alloc();
  const std::int64_t count = static_cast<std::int64_t>(index.size());
  memcpy(next, &count, sizeof count);
  if (count) memcpy(next + sizeof count, index.data(), index.size_bytes());
  const std::uint64_t old = head().index.load(std::memory_order_relaxed);
  head().index.store(static_cast<std::uint64_t>(offset_of(next)), std::memory_order_release);
  if (old) {
    std::int64_t numbers;
    memcpy(&numbers, base_ + old, sizeof numbers);
    add(old, rounded((static_cast<std::size_t>(numbers) + 1) * sizeof(std::int64_t)));
  }
  for (const Range &range : given_back_) add(range.at, range.bytes);
  given_back_.clear();
}

std::vector<std::int64_t> Arena::begin_again() {
  if (head().magic != kMagic) {
    head().index = 0;
    head().magic = kMagic;
  }
  given_back_.clear();
  free_ = {{kUnit, bytes_ - kUnit}};
  const std::uint64_t at = head().index;
  std::int64_t count = 0;
  if (!at || at > bytes_ - sizeof count) return {};
  memcpy(&count, base_ + at, sizeof count);
  const std::size_t most = (bytes_ - at) / sizeof count - 1;
  if (count < 0 || static_cast<std::size_t>(count) > most || !cut(at, rounded((count + 1) * sizeof count))) return {};
  std::vector<std::int64_t> index(count);
  if (count) memcpy(index.data(), base_ + at + sizeof count, count * sizeof count);
  return index;
}

std::byte *Arena::claim(std::int64_t offset, std::int64_t bytes) {
  if (offset < 0 || bytes <= 0 || static_cast<std::uint64_t>(bytes) > bytes_) return nullptr;
  return cut(static_cast<std::size_t>(offset), rounded(bytes)) ? base_ + offset : nullptr;
}

}  // namespace fnx
