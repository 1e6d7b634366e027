// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/checksum_table.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "image/read_exactly.h"
#include "image/tail.h"

namespace reprise::image {

ChecksumTable::ChecksumTable(int fd, std::string name, std::uint64_t offset, std::uint64_t pages,
                             std::vector<std::uint64_t> blocks)
    : fd_(fd), name_(std::move(name)), offset_(offset), pages_(pages), blocks_(std::move(blocks)),
      all_(std::make_unique_for_overwrite<std::uint64_t[]>(pages)), there_(blocks_.size()) {}

ChecksumTable::ChecksumTable(std::unique_ptr<std::uint64_t[]> all, std::uint64_t pages) : pages_(pages), all_(std::move(all)) {}

void ChecksumTable::read_blocks(std::uint64_t from, std::uint64_t end) const {
  const std::uint64_t first = from * kBlockPages, pages = std::min(end * kBlockPages, pages_) - first;
  read_exactly(fd_, name_, offset_ + first * 8, all_.get() + first, pages * 8);
  for (std::uint64_t block = from; block < end; ++block) {
    const std::uint64_t at = block * kBlockPages, count = std::min(kBlockPages, pages_ - at);
    if (block_checksum(all_.get() + at, count * 8, block) != blocks_[block])
      throw Error(Failure::permanent, EBADMSG,
                  name_ + ": is damaged: checksums of its pages " + std::to_string(at) + " to " + std::to_string(at + count - 1) +
                      " do not match their own checksum; use another image or take a new checkpoint");
    there_[block] = true;
  }
}

std::span<const std::uint64_t> ChecksumTable::get(std::uint64_t first, std::uint64_t count) const {
  if (count && !blocks_.empty()) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t end = (first + count - 1) / kBlockPages + 1;
    for (std::uint64_t block = first / kBlockPages; block < end;) {
      std::uint64_t upto = block;
      while (upto < end && !there_[upto]) ++upto;
      if (upto > block) read_blocks(block, upto);
      block = upto + 1;
    }
  }
  return {all_.get() + first, count};
}

}  // namespace reprise::image
