// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Prepares for a possible recovery: a node is silent, and crrun has said what this node would have to do if the
 * silent one were lost. Only steps that harm nobody if the node answers again are done. Images are read and checked.
 * Processes that would be restarted stand by with their memory. A node without ranks also starts a PMIx server and makes
 * the connections to it. Ranks that wait for messages, possibly from the silent node, yield their processors to this
 * work.
 */
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include <asio/steady_timer.hpp>

#include "crd/attempt.h"
#include "crd/pmix_renewal.h"

namespace reprise::crd {

class Standby {
 public:
  explicit Standby(Node& node) : node_(node), timer_(node.loop) {}
  /**
   * Keep what is already prepared and still fits. @param expected the recovery that may come; without a wave: none is
   * expected any more
   */
  void begin(const job::Recover& expected);
  /** Drop all preparations that were not taken. */
  void abandon();
  /** @return the preparation for a rank, if it fits exactly */
  std::optional<Attempt> take(std::uint32_t rank, bool restart, const job::ImagePlace& place);
  /** @return the new server, if it was made for exactly these ranks and this placement; else nullptr */
  std::unique_ptr<PmixRenewal> take_pmix(const std::map<std::uint32_t, std::uint32_t>& placement, const std::vector<std::uint32_t>& ranks);

 private:
  void ready(std::uint32_t rank, bool restart, const FoundImage& image);
  void calm_ranks(bool on);
  void drop_pmix();
  /** @return whether @p one, the preparation for a rank, fits: the same first path and the same process */
  bool is_for(const std::pair<const std::uint32_t, Attempt>& one, bool restart, const job::ImagePlace& place) const;
  Node& node_;
  asio::steady_timer timer_;  ///< drops the preparations when crrun sends nothing more
  unsigned turn_ = 0;
  bool calm_ = false;  ///< ranks were told to yield their processors while they wait
  std::map<std::uint32_t, Attempt> attempts_;
  std::unique_ptr<PmixRenewal> pmix_;
  std::map<std::uint32_t, std::uint32_t> placement_;  ///< the placement that the prepared server was given,
  std::vector<std::uint32_t> pmix_ranks_;             ///< and the ranks that it has connections for
};

}  // namespace reprise::crd
