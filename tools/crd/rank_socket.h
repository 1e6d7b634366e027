// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The Unix socket between the ranks of one namespace on the node and the daemon (mpi-callbacks/channel/rank_channel.h).
 * A rank says its rank in the namespace. Outside of this file it has a number: that of the namespace's rank 0, plus its rank.
 */
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "rank_channel.h"

namespace reprise::crd {

/** A message of a rank. Its size has been checked: as a whole, and against its type. */
class RankMessage {
 public:
  explicit RankMessage(std::string bytes) : bytes_(std::move(bytes)) {}
  const cr_rank_message& head() const { return as<cr_rank_message>(); }
  template <class Type>
  const Type& as() const {
    return *reinterpret_cast<const Type*>(bytes_.data());
  }
  /** @return the bytes from @p offset on, as text */
  std::string text(std::size_t offset) const;
  /** @return @p count NUL-terminated strings from @p offset on; fewer when they are truncated */
  std::vector<std::string> strings(std::size_t offset, std::uint32_t count) const;
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/** @return the size in bytes of the structure of a message type that ranks send; 0 for other types */
std::size_t rank_message_size(std::uint32_t type);

class RankSocket {
 public:
  /**
   * Listen at @p path. Processes of other users are refused and logged. Throws std::system_error.
   * @param first number of the namespace's rank 0
   * @param message called for messages of a rank that has introduced itself; its header has the rank's number
   */
  RankSocket(asio::io_context& loop, const std::string& path, std::uint32_t first, std::function<void(const RankMessage&)> message);
  ~RankSocket();

  bool connected(std::uint32_t number) const;
  /**
   * @param message begins with a struct cr_rank_message, whose rank is filled in
   * @param descriptor to pass with the message, or -1
   * @return false when the rank is not connected
   */
  bool send(std::uint32_t number, const void* message, std::size_t size, int descriptor = -1);
  /** Close a rank's connection. */
  void drop(std::uint32_t number);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace reprise::crd
