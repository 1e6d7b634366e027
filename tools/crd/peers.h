// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What ranks are told of their peers at the end of a recovery: where they listen, and whose processes are new. */
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "crd/node.h"

namespace reprise::crd {

/** What Resume says of the processes of one namespace. */
struct Namespace {
  std::vector<const job::RankAddress*> addresses;
  std::vector<std::uint32_t> moved;  ///< ranks in the namespace
};
using Namespaces = std::map<std::string, Namespace>;  ///< by name

/** @return what a Resume, which must stay, says */
Namespaces by_namespace(const Node& node, const job::Resume& message);
/** Tell it to a rank of this node, in CR_RANK_PEERS and CR_RANK_MOVED. */
void tell_peers(const Node& node, std::uint32_t number, const Namespaces& namespaces);

}  // namespace reprise::crd
