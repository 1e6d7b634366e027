// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Processes that the job's ranks start (MPI_Comm_spawn): a namespace of their own, and what is placed on this node. */
#include <cstdint>

#include "crd/node.h"

namespace reprise::crd {

class Spawner {
 public:
  explicit Spawner(Node& node) : node_(node) {}
  /** The namespace exists from now on. */
  void begin(const job::SpawnBegin& message);
  /** The PMIx server knows it, so that its processes can be started. */
  void known(const PmixKnown& message);
  /** Its processes that still run are killed. */
  void end(const job::SpawnEnd& message);
  /** A launch or a recovery began: there are none any more. The processes are ended by whoever ends the ranks. */
  void forget() { node_.spawned.clear(); }

 private:
  void start(std::uint32_t number);
  void forget_process(std::uint32_t number);
  void tell_known(const job::SpawnBegin& message, const std::string& error);
  void from_process(std::uint32_t first, const RankMessage& message);
  Node& node_;
};

/** For the PMIx server. */
PmixSpawned pmix_spawned(const Node& node, const job::SpawnBegin& message);

}  // namespace reprise::crd
