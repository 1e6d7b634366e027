// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Paths of images for a descriptor that the program has passed. */
#include <string>

#include "base/unique_fd.h"
#include "request/options.h"

namespace reprise::api {

/** Destination of the images of one checkpoint. */
class Destination {
 public:
  /**
   * @param fd    descriptor passed by the program, borrowed; invalid: use @p path
   * @param path  without a descriptor: prefix of the path, may be ""
   * Throws Error (usage).
   */
  Destination(const UniqueFd& fd, std::string path);

  /** Whether the destination can hold more than one image. */
  bool takes_many() const { return directory_ || !fd_given_; }
  /**
   * Set image and image_fd of @p options for its process. In a directory the image is context.PID; a regular file that
   * has a name is replaced; any other descriptor is written to. Without a descriptor the image is PATH.PID, or
   * context.PID if the path is "".
   */
  void put(CheckpointOptions& options) const;

 private:
  const UniqueFd& fd_;
  std::string path_;
  bool fd_given_, directory_ = false;
  bool named_ = false;  // a regular file that still has a name
};

/** @return the path of the open file @p fd, "" when it has none (any more) */
std::string name_of(const UniqueFd& fd);

}  // namespace reprise::api
