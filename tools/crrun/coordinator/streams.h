// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The standard streams across rollbacks. */
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "types.h"

namespace reprise::job {

/**
 * Output or error stream of one rank. Bytes are identified by their offset since the rank's first start. After a rollback
 * the rank repeats output: bytes equal to the earlier ones are dropped; from the first line that differs, the output is
 * new.
 */
class OutputStream {
 public:
  struct Printed {
    std::string data;           ///< print this now
    std::size_t take_back = 0;  ///< number of bytes given before that are void, if not yet printed
    std::uint64_t missing = 0;  ///< bytes that never arrived
  };
  Printed said(std::uint64_t offset, std::string_view data, std::size_t keep);
  /** The rank is back at the point where it had written @p offset bytes. */
  void rolled_back(std::uint64_t offset) {
    cursor_ = offset;
    told = std::min(told, offset);
  }
  /** The output up to @p offset has left crrun. */
  void written(std::uint64_t offset) { written_ = std::max(written_, offset); }
  /** @return the daemon may forget the rank's output up to here: it is written, and repeated output counts as well */
  std::uint64_t seen() const { return std::min({cursor_, printed_, written_}); }
  /** No rank will repeat output from before @p offset. */
  void forget(std::uint64_t offset);
  std::uint64_t printed() const { return printed_; }
  std::size_t kept() const { return history_.size(); }
  /** crrun attached later: earlier output is unknown. */
  void joined_late() { late_ = true; }
  /** crrun attached later: an earlier one has written the output up to @p offset; the last of it is @p history. */
  void continues(std::uint64_t offset, std::string history);

  bool ended = false;
  std::uint64_t told = 0;  ///< of seen(): the daemon knows of it

 private:
  std::size_t begin_of_line(std::size_t at) const;

  std::uint64_t base_ = 0;     ///< offset of the first byte of history_
  std::string history_;        ///< the last printed bytes, up to printed_
  std::uint64_t printed_ = 0;  ///< offset behind the last byte that was given to be printed
  std::uint64_t written_ = 0;  ///< offset behind the last byte that was written
  std::uint64_t cursor_ = 0;   ///< offset of the rank's next byte
  bool late_ = false;
};

/** Standard input, kept from the oldest wave on so that it can be sent again. */
class InputStream {
 public:
  explicit InputStream(std::size_t keep) : keep_(keep) {}

  void supply(const std::string& data);
  void end() { ended_ = true; }
  bool ended() const { return ended_; }
  /** No wave that counts needs input from before @p offset. */
  void forget(std::uint64_t offset);
  /** @return the input from @p offset on; nothing if it was too much to keep */
  std::optional<std::string> from(std::uint64_t offset) const;
  std::uint64_t end_offset() const { return base_ + data_.size(); }
  std::uint64_t base() const { return base_; }

 private:
  std::size_t keep_;
  std::uint64_t base_ = 0;
  std::string data_;
  bool ended_ = false;
};

}  // namespace reprise::job
