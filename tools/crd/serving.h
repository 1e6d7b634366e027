// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file With --redundancy: this node's images are handed out to other daemons, and crrun is told where. */
#include <optional>
#include <string>

#include "crd/images/server.h"
#include "crd/images/sources.h"
#include "crd/node.h"

namespace reprise::crd {

/** What reading images from other nodes needs. */
Readers readers_of(const Node& node);

class Serving {
 public:
  explicit Serving(Node& node) : node_(node) {}
  /** crrun has welcomed this daemon: tell it. Does nothing in a job without redundancy. */
  void welcomed();
  /** @return whether other nodes can read from this one */
  bool on() const { return server_.has_value(); }

 private:
  Node& node_;
  std::optional<ImageServer> server_;
};

}  // namespace reprise::crd
