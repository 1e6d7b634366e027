// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Taking an image's headers and notes apart. Everything in them may be hostile. */
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cr.h"
#include "image/format.h"
#include "image/state.pb.h"

namespace reprise::image {

/** What is read when an image is opened. */
struct Loaded {
  Seal seal{};
  Process process;
  std::vector<ThreadRegs> threads;  ///< in the order of process.threads()
  std::vector<cr_page_run> runs;
  std::unique_ptr<std::uint64_t[]> tail;  ///< the checksums as they were read, which are not copied
  std::span<const std::uint64_t> hashes;  ///< in there
  std::vector<std::uint64_t> blob_hashes;
};

/** Read and check all that is not pages or shared content. @throws Error naming what is wrong */
void load(int fd, const std::string& name, Loaded& out);

/**
 * Parse a serialized Process without letting a small message grow into a huge
 * one in memory. @return false when it is malformed or has too many parts
 */
bool parse_state(std::string_view bytes, Process& out);

/** Read exactly @p len bytes. @throws Error when the file ends before, or fails */
void read_exactly(int fd, const std::string& name, std::uint64_t offset, void* buf, std::size_t len);

}  // namespace reprise::image
