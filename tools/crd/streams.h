// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The standard streams of a rank: pipes of the daemon. Every byte has an offset, counted since the rank's first
 * start. After a rollback, counting continues from the wave's offset.
 */
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <asio/io_context.hpp>

#include "base/unique_fd.h"

namespace reprise::crd {

/** Whether an end of the pipe @p fd is @p link, as /proc/PID/fd shows it ("pipe:[INODE]"). */
bool is_pipe(int fd, const std::string& link);

/** One output stream of a rank. */
class Output {
 public:
  /** Number of unacknowledged bytes at which the pipe is no longer read. */
  static constexpr std::size_t kWindow = 1 << 20;
  /** @param recovery since which the process writes: what an old process has still to say counts for no later one */
  using Send = std::function<void(std::uint32_t recovery, std::uint64_t offset, const std::string& data, bool end)>;

  Output(asio::io_context& loop, Send send);
  ~Output();
  /** Make a new pipe, whose first byte has @p offset. @return the rank's end. Throws std::system_error. */
  UniqueFd open(std::uint32_t recovery, std::uint64_t offset);
  /** Do not read until resume(). */
  void pause();
  void resume();
  /** @return number of bytes in the pipe */
  std::uint64_t queued() const;
  /** Offset of the next byte to be read. */
  std::uint64_t offset() const;
  /** Bytes in the pipe are void after a rollback: drop @p count bytes of them, and count on from @p offset. */
  void rewind(std::uint32_t recovery, std::uint64_t offset, std::uint64_t count);
  /** The process was not taken back in this recovery, and writes on. */
  void stay(std::uint32_t recovery);
  /** crrun has received all bytes before @p offset. */
  void acknowledge(std::uint64_t offset);
  /** Send the unacknowledged bytes again. */
  void resend();
  /** Call @p then once, when all bytes before @p offset have been sent. A rewind, or a new pipe, drops @p then. */
  void when_sent(std::uint64_t offset, std::function<void()> then);
  /** Whether the rank's end is @p link, as /proc/PID/fd shows it ("pipe:[INODE]"). */
  bool is(const std::string& link) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/** The input stream of a rank. */
class Input {
 public:
  explicit Input(asio::io_context& loop);
  ~Input();
  /** Make a new pipe, whose first byte has @p offset. @return the rank's end. Throws std::system_error. */
  UniqueFd open(std::uint64_t offset);
  /**
   * Write @p data to the pipe, except bytes that were written already. @return false when bytes before @p offset are
   * missing
   */
  bool give(std::uint64_t offset, const std::string& data, bool end);
  /** @return offset behind the last byte written to the pipe */
  std::uint64_t offset() const;
  /** @return number of bytes that the rank has not read */
  std::uint64_t queued() const;
  /** Empty the pipe; the next byte written has @p offset. */
  void rewind(std::uint64_t offset);
  /** Whether the rank's end is @p link, as /proc/PID/fd shows it ("pipe:[INODE]"). */
  bool is(const std::string& link) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace reprise::crd
