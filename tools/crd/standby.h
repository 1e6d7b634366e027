// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Before a recovery: a node is silent, and crrun has said what would be asked of this one if it were lost. All is made
 * ready for that which harms nobody if the other one is heard of again: images are read and checked, processes that would be
 * restarted stand by with their memory, on a node without ranks also a PMIx server with connections for them.
 * Ranks that wait for messages, perhaps of the silent node, leave their processors to that.
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
  /** What is ready for it already stays so. @param expected what may come; one without a wave: it will not */
  void begin(const job::Recover& expected);
  /** Drop what was made ready and not taken. */
  void abandon();
  /** @return what is ready for a rank, if it is for just this */
  std::optional<Attempt> take(std::uint32_t rank, bool restart, const job::ImagePlace& place);
  /** @return the new server, if it is for just these ranks and this placement, else nullptr */
  std::unique_ptr<PmixRenewal> take_pmix(const std::map<std::uint32_t, std::uint32_t>& placement, const std::vector<std::uint32_t>& ranks);

 private:
  void ready(std::uint32_t rank, bool restart, const FoundImage& image);
  void calm_ranks(bool on);
  void drop_pmix();
  /** @param one what is ready for a rank @return whether it is for just this: the first of the paths, and the same process */
  bool is_for(const std::pair<const std::uint32_t, Attempt>& one, bool restart, const job::ImagePlace& place) const;
  Node& node_;
  asio::steady_timer timer_;  ///< nobody says any more whether it comes
  unsigned turn_ = 0;
  bool calm_ = false;  ///< ranks were told to leave their processors to others while they wait
  std::map<std::uint32_t, Attempt> attempts_;
  std::unique_ptr<PmixRenewal> pmix_;
  std::map<std::uint32_t, std::uint32_t> placement_;  ///< that the server is told,
  std::vector<std::uint32_t> pmix_ranks_;             ///< and for whom
};

}  // namespace reprise::crd
