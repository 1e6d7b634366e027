// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Which reports of broken connections a daemon passes on to crrun. When a node dies, each of its ranks' connections
 * breaks, and each rank at the other ends reports that: of 64 ranks a node, each connected with each, 4,096 reports from
 * every node. crrun needs few of them.
 */
#include <cstdint>
#include <map>
#include <optional>

#include "job/messages.pb.h"

namespace reprise::job {

/** A rank that cannot reach a peer says so every 30 s: if it has been silent for this long, it has reached it. */
inline constexpr std::uint64_t kReachedMs = 45'000;

class LostLinks {
 public:
  /**
   * A rank of this node reports a broken connection.
   * @param peer_node node of the peer; nothing: it is not known
   * @return whether crrun must have the report
   */
  bool pass(const LinkLost& lost, std::optional<std::uint32_t> peer_node, std::uint64_t now_ms);

 private:
  /** Reports about one node. One pair of ranks stands for all: its reports are passed on for as long as they come. */
  struct About {
    std::uint32_t rank = 0, peer = 0;
    std::uint64_t pair_ms = 0;    ///< newest report of this pair
    std::uint64_t passed_ms = 0;  ///< newest report that was passed on
  };
  std::uint32_t recovery_ = 0;
  std::map<std::optional<std::uint32_t>, About> about_;
};

}  // namespace reprise::job
