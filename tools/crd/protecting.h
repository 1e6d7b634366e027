// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Keeps what brings images of other nodes back if those are lost (job::Protect), in the background. */
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <asio/thread_pool.hpp>

#include "crd/node.h"

namespace reprise::crd {

class Protecting {
 public:
  explicit Protecting(Node& node) : node_(node) {}
  ~Protecting();
  void begin(const job::Protect& message);
  /** All waves but these are removed: what runs for others ends with an error. */
  void prune(const std::vector<std::uint32_t>& keep);
  /** Stop what runs; it is not reported. What was kept stays. */
  void stop();

 private:
  enum class Wave : std::uint8_t { there, removed, given_up };
  using WaveState = std::shared_ptr<std::atomic<Wave>>;
  void end(Wave how, const std::function<bool(std::uint32_t wave)>& which);
  void tell(const job::ProtectDone& done);

  Node& node_;
  std::map<std::uint32_t, WaveState> waves_;  ///< of which something may run
  asio::thread_pool thread_{1};  ///< a thread of its own: other nodes may be slow or silent
};

}  // namespace reprise::crd
