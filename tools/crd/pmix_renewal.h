// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file A new PMIx server in the place of the node's, and connections to it in the names of ranks. */
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
  /** Begins at once. @param placement of all ranks @param ranks those for which there is to be a connection */
  PmixRenewal(Node& node, const std::map<std::uint32_t, std::uint32_t>& placement, const std::vector<std::uint32_t>& ranks);
  /** Have @p then called, once, with the rank's connection as soon as there is one, or with why there is none. */
  void connection(std::uint32_t rank, Then then);
  /** The server of before; nullptr after the first call, or when there was none. */
  std::shared_ptr<PmixHost> take_old();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace reprise::crd
