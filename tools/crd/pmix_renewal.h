// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Replaces a PMIx server of the node, and makes connections to the new one in the names of ranks. */
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "crd/node.h"

namespace reprise::crd {

class PmixRenewal {
 public:
  using Then = std::function<void(UniqueFd, const std::string& error)>;
  /** Begin at once. @param placement of all ranks @param ranks the ranks that need a connection */
  PmixRenewal(Node& node, Side side, const std::map<std::uint32_t, std::uint32_t>& placement, const std::vector<std::uint32_t>& ranks);
  /** Call @p then once, as soon as the rank's connection is there, or with the reason why there is none. */
  void connection(std::uint32_t rank, Then then);
  /** @return the previous server; nullptr after the first call, or when there was none */
  std::shared_ptr<PmixHost> take_old();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace reprise::crd
