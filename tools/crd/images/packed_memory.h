// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Kept memory as a file: one piece after the other of what has ever been written, in order, each with its place and length before
 * it. So memory that is large and hardly used is a small file.
 */
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <xxhash.h>

#include "crd/images/part_file.h"

namespace reprise::crd {

/** Of such a file. */
class PackedChecksum {
 public:
  PackedChecksum();
  void add(const void* data, std::size_t size);
  std::uint64_t sum() const;

 private:
  std::unique_ptr<XXH64_state_t, XXH_errorcode (*)(XXH64_state_t*)> state_;
};

/** What the file of a piece of memory has. */
struct PackedMemory {
  std::uint64_t bytes = 0, checksum = 0;  ///< XXH64 of it
};

/** @return what packed memory takes at most. @param memory a memfd */
std::uint64_t packed_bytes(int memory, std::uint64_t size);
/**
 * Write what @p memory, a memfd of @p size bytes, has now.
 * @param keep_on polled; false: stop
 * Throws std::runtime_error, std::system_error (ECANCELED: it was to stop).
 */
PackedMemory pack_memory(int memory, std::uint64_t size, PartFile& to, const std::function<bool()>& keep_on);
/** Write what the file @p path has into new memory of @p size bytes. Throws std::runtime_error: it is not what @p packed says … */
void unpack_memory(const std::string& path, const PackedMemory& packed, int memory, std::uint64_t size);

}  // namespace reprise::crd
