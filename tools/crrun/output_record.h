// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file What crrun has written of the ranks' output, in a file on this host: a later crrun (--attach) then prints nothing
 * twice. The file outlives crrun, not the host, so nothing is synced.
 */
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "crrun/coordinator/types.h"

namespace reprise::job {

class OutputRecord {
 public:
  /**
   * Open the record of a job, or make an empty one if there is none that fits. If neither can be done, nothing is recorded.
   * @param kept bytes to keep of the end of each stream
   */
  OutputRecord(std::string path, std::uint32_t ranks, std::size_t kept);

  struct Printed {
    std::uint64_t offset = 0;  ///< behind the last byte that was written
    std::string history;       ///< the bytes before it
  };
  /** @return nothing if no byte of the stream (1: output, 2: error output) is known to be written */
  std::optional<Printed> read(Rank rank, std::uint32_t stream) const;
  /** @p data, which ends at @p offset of the stream, was written. */
  void wrote(Rank rank, std::uint32_t stream, std::uint64_t offset, std::string_view data);
  /** The job is over. */
  void remove();

 private:
  struct Entry {
    std::uint64_t begin = 0, end = 0;  ///< offsets of the kept bytes
  };
  std::uint64_t place(Rank rank, std::uint32_t stream) const;
  bool valid(Rank rank, std::uint32_t stream) const;
  void put(std::uint64_t at, const void* data, std::size_t size);

  std::string path_;
  std::uint32_t ranks_;
  std::size_t kept_;
  UniqueFd fd_;
};

}  // namespace reprise::job
