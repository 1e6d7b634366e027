// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Tests once if this node can roll back and restart ranks: saves a dummy process, rolls it back, ends and restarts it. The user
 * learns of a failure before a node is lost. The test also loads into memory all that a recovery needs: a node that has never run these
 * commands reads them from disk, or over the network, while all ranks wait.
 */
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "crd/node.h"

namespace reprise::crd {

class Rehearsal {
 public:
  explicit Rehearsal(Node& node) : node_(node) {}
  /** Later calls do nothing. */
  void begin();
  /** Stop the test: there is real work. */
  void abandon();

 private:
  void checkpoint();
  void pause();
  void restart();
  void run(std::vector<std::string> argv, std::function<void()> next);
  void end(const std::string& error);
  Node& node_;
  bool begun_ = false;
  std::string image_;
  std::unique_ptr<Process> subject_;
  std::unique_ptr<Tool> tool_;
};

}  // namespace reprise::crd
