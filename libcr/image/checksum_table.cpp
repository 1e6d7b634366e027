// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/checksum_table.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "image/read_exactly.h"
#include "image/tail.h"

namespace reprise::image {

namespace {
constexpr std::uint64_t kGroup = 16;  // blocks that are read at once
}

ChecksumTable::ChecksumTable(int fd, std::string name, std::uint64_t offset, std::uint64_t pages,
                             std::vector<std::uint64_t> blocks)
    : fd_(fd), name_(std::move(name)), offset_(offset), pages_(pages), blocks_(std::move(blocks)),
      all_(std::make_unique_for_overwrite<std::uint64_t[]>(pages)), read_((blocks_.size() + kGroup - 1) / kGroup),
      checked_(blocks_.size()) {}

ChecksumTable::ChecksumTable(std::unique_ptr<std::uint64_t[]> all, std::uint64_t pages) : pages_(pages), all_(std::move(all)) {}

void ChecksumTable::read_group(std::uint64_t group) const {
  const std::uint64_t first = group * kGroup * kBlockPages, pages = std::min(kGroup * kBlockPages, pages_ - first);
  read_exactly(fd_, name_, offset_ + first * 8, all_.get() + first, pages * 8);
  read_[group] = true;
}

void ChecksumTable::check_block(std::uint64_t block) const {
  const std::uint64_t at = block * kBlockPages, count = std::min(kBlockPages, pages_ - at);
  if (block_checksum(all_.get() + at, count * 8, block) != blocks_[block])
    throw Error(Failure::permanent, EBADMSG,
                name_ + ": is damaged: checksums of its pages " + std::to_string(at) + " to " + std::to_string(at + count - 1) +
                    " do not match their own checksum; use another image or take a new checkpoint");
  checked_[block] = true;
}

std::span<const std::uint64_t> ChecksumTable::get(std::uint64_t first, std::uint64_t count) const {
  if (count && !blocks_.empty()) {
    const std::lock_guard lock(mutex_);
    for (std::uint64_t block = first / kBlockPages; block <= (first + count - 1) / kBlockPages; ++block) {
      if (checked_[block]) continue;
      if (!read_[block / kGroup]) read_group(block / kGroup);
      check_block(block);
    }
  }
  return {all_.get() + first, count};
}

}  // namespace reprise::image
