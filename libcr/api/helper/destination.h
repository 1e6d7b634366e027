// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Where images go to and come from, given a descriptor of the program's. */
#include <string>

#include "base/unique_fd.h"
#include "request/options.h"

namespace reprise::api {

/** Where the images of one checkpoint go. */
class Destination {
 public:
  /** @param fd of the program's; invalid: beside @p path, see below */
  Destination(const UniqueFd& fd, std::string path);

  /** May there be more than one image? */
  bool takes_many() const { return directory_ || !fd_given_; }
  /**
   * Say in @p options where the image of its process goes. A directory gets context.PID; a file that has a name
   * is replaced; anything else is written to. Without a descriptor it is PATH.PID, or context.PID when there is
   * no path either.
   */
  void put(CheckpointOptions& options) const;

 private:
  const UniqueFd& fd_;
  std::string path_;
  bool fd_given_, directory_ = false;
  bool named_ = false;  // a regular file that still has a name
};

/** @return the name of the file that @p fd is open on, "" when it has none (any more) */
std::string name_of(const UniqueFd& fd);

}  // namespace reprise::api
