// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Copying images to shared storage in the background: checked while they are read, resumed where it ended. */
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <asio/thread_pool.hpp>

#include "crd/node.h"

namespace reprise::crd {

/** How fast, and when to stop. */
struct CopyLimits {
  std::uint64_t bytes_per_second = 0;                   ///< 0: as fast as it goes
  std::function<bool()> keep_on;                        ///< false: stop; may be empty
  std::function<void(std::uint64_t bytes)> progress;    ///< so much more is copied; may be empty
};

/**
 * Copy image @p from to @p to, with its manifest beside it, under a temporary name first. What a copy that was interrupted has
 * left is used as far as it is the same. A complete copy is left alone. Throws std::runtime_error,
 * std::system_error: the image is not what its manifest says, no space …
 * @return bytes of the image
 */
std::uint64_t stage_image(const std::string& from, const std::string& to, const CopyLimits& limits);

class Staging {
 public:
  explicit Staging(Node& node) : node_(node) {}
  ~Staging();
  void begin(const job::Stage& message);
  /** Stop what is under way; what was copied stays. */
  void stop();

 private:
  Node& node_;
  std::atomic<unsigned> turn_{0};
  asio::thread_pool thread_{1};  ///< its own: shared storage may be slow or gone
};

}  // namespace reprise::crd
