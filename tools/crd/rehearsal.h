// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Whether this spare can do what it is kept for: a process of no use is saved and restarted on it, once. People hear
 * of it before a node is lost, and all that a restart needs was used once and is at hand.
 */
#include <memory>
#include <string>

#include "crd/node.h"

namespace reprise::crd {

class Rehearsal {
 public:
  explicit Rehearsal(Node& node) : node_(node) {}
  /** Not twice. */
  void begin();
  /** There is something to do in earnest. */
  void abandon();

 private:
  void checkpoint();
  void restart();
  void end(const std::string& error);
  Node& node_;
  bool begun_ = false;
  std::string image_;
  std::unique_ptr<Process> subject_;
  std::unique_ptr<Tool> tool_;
};

}  // namespace reprise::crd
