// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The checksums of a file's pages. Of the table in the file, blocks are checked when they are needed, and read with some more:
 * where pages are scattered, few are of one block.
 */
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace reprise::image {

class ChecksumTable {
 public:
  /**
   * @param fd      of the file, borrowed
   * @param name    of the file in messages
   * @param offset  of the table in the file
   * @param pages   whose checksums it has
   * @param blocks  the checksum of each block of kTableBlock bytes
   */
  ChecksumTable(int fd, std::string name, std::uint64_t offset, std::uint64_t pages, std::vector<std::uint64_t> blocks);
  /** A table that has been read and checked as a whole, as formats 1 and 2 need it. */
  ChecksumTable(std::unique_ptr<std::uint64_t[]> all, std::uint64_t pages);

  std::uint64_t pages() const { return pages_; }
  /**
   * @return checksums of @p count pages from number @p first on, which are in the table; valid as long as the table.
   *         Thread-safe.
   * @throws Error (permanent) when the table is damaged there
   */
  std::span<const std::uint64_t> get(std::uint64_t first, std::uint64_t count) const;

 private:
  void read_group(std::uint64_t group) const;
  void check_block(std::uint64_t block) const;

  int fd_ = -1;
  std::string name_;
  std::uint64_t offset_ = 0, pages_;
  std::vector<std::uint64_t> blocks_;      // none: all is there
  std::unique_ptr<std::uint64_t[]> all_;  // memory that nothing is read into costs nothing
  mutable std::mutex mutex_;
  mutable std::vector<bool> read_;     // groups of blocks
  mutable std::vector<bool> checked_;  // blocks
};

}  // namespace reprise::image
