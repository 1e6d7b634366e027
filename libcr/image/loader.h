// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Parse the headers and notes of an image. None of their content is trusted. */
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cr.h"
#include "image/checksum_table.h"
#include "image/format.h"
#include "image/state.pb.h"

namespace reprise::image {

/** The parts of an image that are read when it is opened. */
struct Loaded {
  Seal seal{};
  Process process;
  std::vector<ThreadRegs> threads;  ///< in the order of process.threads()
  std::vector<cr_page_run> runs;
  std::unique_ptr<ChecksumTable> table;  ///< checksums of pages
  std::vector<std::uint64_t> blob_hashes;
};

/**
 * Read and check all of an image but pages, their checksums, and shared content.
 * @param fd    borrowed; the table of checksums reads from it as long as it exists
 * @param name  name of the image in messages
 * @throws Error usage (not a regular file), permanent (damaged, truncated, not an image, of a newer format)
 */
void load(int fd, const std::string& name, Loaded& out);

/**
 * Read and check the seal, and what tells of the checksums: of @p out only seal, table and blob_hashes are set.
 * @throws Error as load()
 */
void load_tables(int fd, const std::string& name, Loaded& out);

/**
 * Parse a serialized Process. Limits the memory that a small hostile message can
 * make the parser allocate (kMaxState, kMaxStateItems).
 * @return false when the message is malformed or exceeds a limit
 */
bool parse_state(std::string_view bytes, Process& out);

}  // namespace reprise::image
