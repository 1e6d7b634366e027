// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The state of a job on one file system: a snapshot, and beside it a log of the changes since, one per line. What a
 * change costs does not depend on the size of the job. A crash leaves at most a line that is not complete; it was not
 * reported as written and does not count.
 */
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "crrun/coordinator/state.h"

namespace reprise::job {

/** What one SaveState has changed. The numbers of a job's changes are consecutive. */
struct Change {
  std::uint64_t number = 0;
  std::vector<Record> records;
  /** @return the records as JSON. They are encoded once, however many logs and threads want them. */
  const std::string& text() const;

 private:
  mutable std::once_flag encoded_;
  mutable std::string text_;
};

/** A state and the number of the newest change in it. */
struct NumberedState {
  std::uint64_t number = 0;
  State state;
};

using Changes = std::vector<std::shared_ptr<const Change>>;

class StateLog {
 public:
  /** A log is written anew as a snapshot when it is longer than this, and than the snapshot. */
  static constexpr std::size_t kLongLog = 1 << 20;
  /** @param snapshot path of the file; the log is @p log. The first write() writes a snapshot. */
  StateLog(std::string snapshot, std::string log);

  /**
   * Write changes that are behind all that were written, and sync them. @p whole gives the state with at least these
   * changes, for a snapshot: written when the log is long or was not written completely. Throws std::system_error.
   */
  void write(const Changes& changes, const std::function<NumberedState()>& whole);
  /** Changes were left out: the next write() writes a snapshot. */
  void left_out() { whole_ = false; }
  /** Have a snapshot that needs no log. Throws std::system_error. */
  void close(const std::function<NumberedState()>& whole);
  /** Remove both files. */
  void remove() const;

 private:
  std::string line(const Change& change) const;
  void append(const std::string& text);
  void snapshot(const NumberedState& state);

  std::string snapshot_, log_;
  std::string by_;      ///< of this writer: what another crrun, which was replaced, still appends does not count
  bool whole_ = false;  ///< the files have all changes that were written
  std::size_t log_bytes_ = 0, snapshot_bytes_ = 0;
};

/** Which files of a log count: all, or only those that belong to this user and that nobody else may write. */
enum class Whose { anybody, own };
/** @return nothing if there is no snapshot, or it is damaged. Throws std::runtime_error if it is of another job. */
std::optional<NumberedState> read_state(const std::string& snapshot, const std::string& log, std::size_t ranks, Whose whose);

}  // namespace reprise::job
