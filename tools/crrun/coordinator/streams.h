// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Standard streams across rollbacks. */
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "types.h"

namespace reprise::job {

/**
 * Output and error of one rank. Bytes are known by their offset since its first start. After a rollback it
 * says things again: what is the same as before is dropped, from the first byte that differs on it is new.
 */
class OutputStream {
 public:
  struct Printed {
    std::string data;           ///< to be printed now
    std::size_t take_back = 0;  ///< so many bytes that were given before are void, if nobody has seen them yet
    std::uint64_t missing = 0;  ///< bytes that never came
  };
  Printed said(std::uint64_t offset, const std::string& data, std::size_t keep);
  /** The process is back where it had said @p offset bytes. */
  void rolled_back(std::uint64_t offset) { cursor_ = offset; }
  /** Nobody will say anything before @p offset again. */
  void forget(std::uint64_t offset);
  std::uint64_t printed() const { return printed_; }
  std::size_t kept() const { return history_.size(); }
  /** Of a crrun that came later: what stands before is not known. */
  void joined_late() { late_ = true; }

  bool ended = false;
  std::uint64_t told = 0;  ///< the daemon knows that we have printed so much

 private:
  std::uint64_t base_ = 0;     ///< offset of the first byte of history_
  std::string history_;        ///< what was printed last, up to printed_
  std::uint64_t printed_ = 0;  ///< offset behind the last byte that was printed
  std::uint64_t cursor_ = 0;   ///< offset that the rank says next
  bool late_ = false;
};

/** Standard input, kept from the oldest wave on so that it can be given again. */
class InputStream {
 public:
  explicit InputStream(std::size_t keep) : keep_(keep) {}

  void supply(const std::string& data);
  void end() { ended_ = true; }
  bool ended() const { return ended_; }
  /** No wave that counts needs what stands before. */
  void forget(std::uint64_t offset);
  /** What stands from @p offset on. None: it was too much to keep. */
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
