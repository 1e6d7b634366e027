// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Between the PMIx server of the node and crrun. */
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "crd/node.h"

namespace reprise::crd {

class PmixRelay {
 public:
  explicit PmixRelay(Node& node) : node_(node) {}
  /** A recovery began, or a launch: collectives are counted anew, and what is open is void. */
  void reset();
  /** From the PMIx server. */
  void take(const FromPmix& message);
  /** From crrun; @return false when it is none of ours. */
  bool take(const job::Down& message);

 private:
  using Members = std::vector<std::uint32_t>;
  Node& node_;
  std::map<Members, std::uint32_t> counts_;                              ///< collectives begun
  std::map<std::pair<Members, std::uint32_t>, std::uint64_t> fences_;    ///< open ones: the PMIx server's number
  bool modex_told_ = false;  ///< what the ranks have put is known to crrun
};

}  // namespace reprise::crd
