// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file What a recovery that takes only spawned processes back means for the job's own ranks of this node: each is asked whether it can
 * stay, and is told when the others have been taken back.
 */
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <asio/steady_timer.hpp>

#include "crd/node.h"

namespace reprise::crd {

class Staying {
 public:
  explicit Staying(Node& node) : node_(node), timer_(node.loop) {}
  /** @return whether a recovery leaves ranks of this node as they are */
  static bool concerns(const Node& node, const job::Recover& message);
  /** @param obstacle why no rank of this node can stay; "": each decides itself */
  void begin(const job::Recover& message, const std::string& obstacle);
  void resume(const job::Resume& message);
  /** A newer recovery takes the ranks back. */
  void abandon();
  void answered(const RankMessage& message);  ///< CR_RANK_STAYS

 private:
  void ask(std::uint32_t rank, const std::string& names);
  void cannot(std::uint32_t rank, const std::string& why);
  void tell_when_all_can();

  Node& node_;
  asio::steady_timer timer_;
  std::uint32_t number_ = 0, wave_ = 0;
  std::map<std::uint32_t, std::optional<bool>> can_;  ///< by rank; nothing: it has not answered
};

}  // namespace reprise::crd
