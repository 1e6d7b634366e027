// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * What follows the shared content in an image: the checksums, as a tree. Each page has one in a table. Each block of
 * the table has one in the tree's upper level, and the seal has one of that and of all else. So who opens an image
 * reads the upper level, and of the table the blocks with pages that are used (checksum_table.h).
 */
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "image/format.h"

namespace reprise::image {

inline constexpr std::uint64_t kTableBlock = 4096;               ///< bytes of the table for a checksum of the upper level
inline constexpr std::uint64_t kBlockPages = kTableBlock / 8;  ///< pages that such a block is of

/** Where the parts of the tail are. All in bytes; places are counted from the end of the shared content. */
struct TailLayout {
  TailLayout(std::uint32_t format, std::uint64_t pages, std::uint64_t blob_size);

  std::uint64_t padding;            ///< zeros before the first note
  std::uint64_t table, table_size;  ///< checksums of pages
  std::uint64_t blob, blob_size;    ///< checksums of shared content
  std::uint64_t tree, tree_size;    ///< upper level: first that of the headers, then those of the table; formats 1, 2: none
  std::uint64_t seal;               ///< struct Seal
  std::uint64_t size;
};

/** @return the checksum of block @p number of the table of page checksums */
std::uint64_t block_checksum(const void* content, std::size_t len, std::uint64_t number);

/** @return the checksum of the headers */
std::uint64_t head_checksum(std::string_view head);

/** Build the tail. Sets the seal's hash. */
std::string build_tail(std::string_view head, Seal seal, const std::vector<std::uint64_t>& hashes,
                       const std::vector<std::uint64_t>& blob_hashes);

/**
 * Set the upper level of the tree in @p tail, and the hash in its seal, to what the rest of the image needs.
 * @return false when the tail does not have the size that its seal tells
 */
bool seal_tail(std::string_view head, std::span<char> tail);

/**
 * @param head   [0, pages offset); only formats 1 and 2 need it here
 * @param front  the tail up to the table of page checksums
 * @param table  that table; only formats 1 and 2 need it here
 * @param rest   the tail behind the table
 * @return the hash that the seal must have
 */
std::uint64_t seal_hash(std::uint32_t format, std::string_view head, std::string_view front, std::string_view table,
                        std::string_view rest);

}  // namespace reprise::image
