// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Where images go to and come from, given a descriptor of the program's. */
#include <functional>
#include <string>

#include "base/unique_fd.h"

namespace reprise::api {

/** Where the images of one checkpoint go. */
class Destination {
 public:
  /** @param fd of the program's; invalid: beside @p path, see below */
  Destination(const UniqueFd& fd, std::string path);

  /** May there be more than one image? */
  bool takes_many() const { return directory_ || !fd_given_; }
  /**
   * Have @p write make the image of @p pid at the path it is given. A directory gets
   * context.PID; a file that has a name is replaced; anything else is written to. Without a
   * descriptor it is PATH.PID, or context.PID when there is no path either.
   */
  void put(pid_t pid, const std::function<void(const std::string& path)>& write) const;

 private:
  void copy_into(const std::function<void(const std::string& path)>& write) const;

  const UniqueFd& fd_;
  std::string path_;
  bool fd_given_, directory_ = false;
  bool named_ = false;  // a regular file that still has a name
};

/** A path under which the file of @p fd can be opened again; its name where it still has one. */
std::string path_of(const UniqueFd& fd);

}  // namespace reprise::api
