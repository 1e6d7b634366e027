// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Processes that ranks start (MPI_Comm_spawn): their namespaces, and the processes that are placed on this node. */
#include <cstdint>
#include <functional>
#include <utility>

#include "crd/beside.h"
#include "crd/node.h"

namespace reprise::crd {

class Spawner {
 public:
  /** @param said called for messages of the processes' transport */
  Spawner(Node& node, std::function<void(const RankMessage&)> said) : node_(node), said_(std::move(said)) {}
  /** The namespace exists from now on. */
  void begin(const job::SpawnBegin& message);
  /** A PMIx server knows the namespace. When all of this node do, its processes are started. */
  void known(const PmixKnown& message);
  /** Kill the processes of the namespace that still run. */
  void end(const job::SpawnEnd& message);
  /** A launch began: no namespace is left. The code that ends the ranks also ends these processes. */
  void forget() { node_.spawned.clear(); }
  /** A recovery began: these namespaces are left, as they were in its wave. */
  void only(const job::Recover& message);

 private:
  void listen(Spawned& space);
  void start(std::uint32_t number, const Variables& beside);
  void forget_process(std::uint32_t number);
  void tell_known(const job::SpawnBegin& message, const std::string& error);
  Node& node_;
  std::function<void(const RankMessage&)> said_;
};

/** The namespace's description for the PMIx server. */
PmixSpawned pmix_spawned(const Node& node, const job::SpawnBegin& message);

}  // namespace reprise::crd
