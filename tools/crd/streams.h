// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Standard streams of a rank: pipes of the daemon's. Every byte has an offset, counted since the rank's
 * first start; after a rollback counting goes on from the offset that the wave had.
 */
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <asio/io_context.hpp>

#include "base/unique_fd.h"

namespace reprise::crd {

/** One of a rank's outputs. */
class Output {
 public:
  /** Bytes that may be without acknowledgement before the pipe is no longer read. */
  static constexpr std::size_t kWindow = 1 << 20;
  using Send = std::function<void(std::uint64_t offset, const std::string& data, bool end)>;

  Output(asio::io_context& loop, Send send);
  ~Output();
  /** A new pipe; what it brings begins at @p offset. @return the end for the rank. Throws std::system_error. */
  UniqueFd open(std::uint64_t offset);
  /** Read no more, until resume(). */
  void pause();
  void resume();
  /** Bytes that lie in the pipe. */
  std::uint64_t queued() const;
  /** Offset of the next byte to be read. */
  std::uint64_t offset() const;
  /** What is in the pipe belongs to a past that is void: drop @p count bytes of it, and count on from @p offset. */
  void rewind(std::uint64_t offset, std::uint64_t count);
  /** Everything before @p offset has arrived. */
  void acknowledge(std::uint64_t offset);
  /** Send once more what has not been acknowledged. */
  void resend();
  /** Call @p then, once, when all bytes before @p offset have been sent. A rewind, or a new pipe, drops it. */
  void when_sent(std::uint64_t offset, std::function<void()> then);
  bool is(dev_t device, ino_t inode) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/** The input of a rank. */
class Input {
 public:
  explicit Input(asio::io_context& loop);
  ~Input();
  /** A new pipe, whose first byte has @p offset. @return the end for the rank. Throws std::system_error. */
  UniqueFd open(std::uint64_t offset);
  /** What has been given already is left out; @return false when something is missing before it. */
  bool give(std::uint64_t offset, const std::string& data, bool end);
  /** Bytes put into the pipe so far, as an offset. */
  std::uint64_t offset() const;
  /** Bytes that the rank has not read. */
  std::uint64_t queued() const;
  /** Empty the pipe; what is given next has @p offset. */
  void rewind(std::uint64_t offset);
  bool is(dev_t device, ino_t inode) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace reprise::crd
