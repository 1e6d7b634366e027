// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What a daemon hands out: a file of the wave directories, read at any place. */
#include <cstdint>
#include <memory>
#include <string>

#include "crd/images/images.pb.h"

namespace reprise::crd {

/** A manifest names the files that a rank has mapped, and little else. */
inline constexpr std::uint64_t kMostManifest = 16 << 20;
/** A description of parity has the manifests of all images of the other members. */
inline constexpr std::uint64_t kMostParitySet = 256 << 20;

class Offered {
 public:
  virtual ~Offered() = default;
  virtual std::uint64_t size() const = 0;
  /** @param offset, len lie in it. Throws std::runtime_error: it is damaged … */
  virtual void read(std::uint64_t offset, char* buffer, std::size_t len) const = 0;
};

/** Find what is asked for in LOCAL/ID @p directory. Throws std::runtime_error, which says what is missing or damaged. */
std::unique_ptr<Offered> open_offered(const std::string& directory, const ImageRequest& request);

}  // namespace reprise::crd
