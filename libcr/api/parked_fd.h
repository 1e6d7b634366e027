// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The program's descriptor of the image. The image gets its name by a rename: what the
 * descriptor is of is gone then. So it is opened anew when the request has ended. In a
 * program that saves itself it stands for /dev/null meanwhile, lest it be saved and
 * not be found again.
 */
#include <climits>

namespace reprise::api {

class ParkedFd {
 public:
  /**
   * Remember @p fd when it is of a regular file that has a name; else nothing happens.
   * @param away let it stand for /dev/null
   */
  void park(int fd, bool away);
  /** Open the file that has the name now, unless the program has closed the descriptor meanwhile. */
  void give_back();
  /** Leave it as it is. */
  void forget() { fd_ = -1; }

 private:
  bool untouched() const;

  int fd_ = -1;
  unsigned long device_ = 0, inode_ = 0;  // of what it stands for
  int flags_ = 0, descriptor_flags_ = 0;
  char path_[PATH_MAX] = "";
};

/** Absolute name of what @p fd is open on, "" when it has none. @return whether it has one */
bool name_of_descriptor(int fd, char* path, unsigned long size);

}  // namespace reprise::api
