// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file A file that is being written to its place: it takes its name when it is whole. */
#include <cstdint>
#include <span>
#include <string>

#include "base/unique_fd.h"
#include "crd/images/manifest.h"

namespace reprise::crd {

class PartFile {
 public:
  /** Begin to write the file @p to; its directory is there. Throws std::system_error. */
  explicit PartFile(std::string to);
  /** What was not finished is removed. */
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  void write(std::uint64_t offset, std::span<const char> content);
  /** Write it to the disk, and replace by it what has its name. @param lasting it is to outlive a crash of the node */
  void take_name(bool lasting = true);
  const std::string& path() const { return part_; }  ///< until it takes its name
  const std::string& to() const { return to_; }

 private:
  const std::string to_, part_;
  UniqueFd fd_;
};

/**
 * Read an image that was written again, as one that stands alone, and compare it with its checksums, write its manifest, and give both
 * their names. Throws std::runtime_error: it is not the image that @p manifest describes.
 */
void finish_image(PartFile& image, Manifest manifest);

}  // namespace reprise::crd
