// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Starting the ranks of the node from the beginning. */
#include <cstdint>

#include "crd/beside.h"
#include "crd/node.h"

namespace reprise::crd {

class Launcher {
 public:
  explicit Launcher(Node& node) : node_(node) {}
  /** Kill the ranks that are here, then start the ranks that @p message places here. */
  void launch(const job::Launch& message);

 private:
  void start_all();
  void start(std::uint32_t rank, Binder& binder, const Variables& beside);
  Node& node_;
};

/**
 * Start a rank's process with the daemon's pipes as its streams, and report it to crrun. @p failed is called when it
 * cannot be started.
 */
void start_process(Node& node, Rank& rank, ProcessSpec spec, std::function<void(const std::string& error)> failed);

/** Report to crrun that a rank could not be started. */
void start_failed(Node& node, std::uint32_t rank, const std::string& error);

/** Whether the node has more ranks than processors: waiting ranks then yield the processor. */
bool crowded(const Node& node);

/** What the ranks that start now need to start another job beside this one. A large job has many ranks: once for all of them. */
Variables variables_beside(const Node& node);
/** The environment of a rank under the node's current PMIx server. @param more set in addition */
std::vector<std::string> environment_of_rank(const Node& node, std::uint32_t number, const Variables& more = {});

}  // namespace reprise::crd
