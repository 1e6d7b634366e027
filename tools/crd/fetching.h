// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Before ranks are restarted here: reads their images from other nodes to this node's disk (job::Fetch). */
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <asio/thread_pool.hpp>

#include "crd/node.h"

namespace reprise::crd {

class Fetching {
 public:
  explicit Fetching(Node& node) : node_(node) {}
  ~Fetching();
  struct Result {
    std::string error;  ///< "": the image is in the wave's directory of this node now
    bool bad = false;   ///< what other nodes have of it is missing or damaged; false: they do not answer, or this node's disk …
  };
  using Then = std::function<void(std::uint32_t rank, const Result& result)>;
  /** @return what @p message tells this node to read */
  std::vector<job::Fetch> orders(const job::Recover& message) const;
  /**
   * Begin with @p orders for @p wave; what was begun before is given up.
   * @param then called for each rank when that is done, unless it is given up
   * @return the ranks
   */
  std::set<std::uint32_t> begin(std::uint32_t wave, std::vector<job::Fetch> orders, Then then);
  void stop();

 private:
  Node& node_;
  std::shared_ptr<std::atomic<bool>> wanted_;  ///< false: what runs is given up. nullptr: nothing was begun
  asio::thread_pool thread_{1};
};

}  // namespace reprise::crd
