// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The socket by which the ranks of the node talk to the daemon (mpi-callbacks/channel/rank_channel.h). */
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "rank_channel.h"

namespace reprise::crd {

/** A message of a rank: checked for its length, and for its type's. */
class RankMessage {
 public:
  explicit RankMessage(std::string bytes) : bytes_(std::move(bytes)) {}
  const cr_rank_message& head() const { return as<cr_rank_message>(); }
  template <class Type>
  const Type& as() const {
    return *reinterpret_cast<const Type*>(bytes_.data());
  }
  /** What follows @p offset, as a text. */
  std::string text(std::size_t offset) const;
  /** @p count strings, each ended by 0, from @p offset on; fewer when they are cut short. */
  std::vector<std::string> strings(std::size_t offset, std::uint32_t count) const;
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/** Bytes of the structure of a type that ranks send; 0 for types they do not. */
std::size_t rank_message_size(std::uint32_t type);

class RankSocket {
 public:
  /**
   * Listen at @p path. Whoever is not of our user is refused and logged. Throws std::system_error.
   * @param message from a rank that has introduced itself
   */
  RankSocket(asio::io_context& loop, const std::string& path, std::function<void(const RankMessage&)> message);
  ~RankSocket();

  bool connected(std::uint32_t rank) const;
  /** @param descriptor to pass along, or -1. @return false when the rank is not connected */
  bool send(std::uint32_t rank, const void* message, std::size_t size, int descriptor = -1);
  template <class Type>
  bool send(Type message, cr_rank_type type, std::uint32_t rank, std::uint32_t recovery) {
    message.head = {static_cast<std::uint32_t>(type), sizeof message, rank, recovery};
    return send(rank, &message, sizeof message);
  }
  /** Close a rank's connection. */
  void drop(std::uint32_t rank);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace reprise::crd
