// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Copies images to shared storage in the background: verifies them while reading, and resumes an interrupted copy. */
#include <atomic>
#include <cstdint>
#include <string>

#include <asio/thread_pool.hpp>

#include "crd/images/copying.h"
#include "crd/node.h"

namespace reprise::crd {

/** A file to write over: the copy of an image that does not count any more. */
struct Old {
  std::string path;      ///< need not exist; "": none
  unsigned most = 0;     ///< files, one after the other, of which a copy may keep equal parts
};

/** What a copy has cost. */
struct Copied {
  std::uint64_t bytes = 0;  ///< size of the image
  std::uint64_t kept = 0;   ///< of these, in the old file already
};

/**
 * Copy image @p from to @p to, and its manifest, under a temporary name first. Data of an interrupted copy is reused as
 * far as it is equal. A complete copy is left alone. Otherwise the copy takes over the file of @p old if there is one, and
 * writes only what differs. Throws std::runtime_error or std::system_error: the image does not match its manifest, no
 * space …
 */
Copied stage_image(const std::string& from, const std::string& to, const CopyLimits& limits, const Old& old = {});

class Staging {
 public:
  explicit Staging(Node& node) : node_(node) {}
  ~Staging();
  void begin(const job::Stage& message);
  /** Stop running copies; copied data stays. */
  void stop();

 private:
  Node& node_;
  std::atomic<unsigned> turn_{0};
  asio::thread_pool thread_{1};  ///< a thread of its own: shared storage may be slow or unavailable
};

}  // namespace reprise::crd
