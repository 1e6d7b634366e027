// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The program's descriptor of the image. The image gets its name by a rename, which unlinks
 * the file that the descriptor refers to. So the library opens the new file as the same
 * descriptor when the request has ended. In a program that saves itself the descriptor
 * refers to /dev/null meanwhile: a restart would not find the unlinked file.
 */
#include <climits>

namespace reprise::api {

class ParkedFd {
 public:
  /**
   * Remember @p fd if it refers to a regular file that has a name; otherwise do nothing.
   * @param away  let @p fd refer to /dev/null until give_back()
   */
  void park(int fd, bool away);
  /** Open the file that has the name now as the descriptor, unless the program has closed or replaced it meanwhile. */
  void give_back();
  /** Make give_back() do nothing. */
  void forget() { fd_ = -1; }

 private:
  bool untouched() const;

  int fd_ = -1;
  unsigned long device_ = 0, inode_ = 0;  // file to which the descriptor refers
  int flags_ = 0, descriptor_flags_ = 0;
  char path_[PATH_MAX] = "";
};

/** Write the absolute path of open file @p fd to @p path (@p size bytes), "" if it has none. @return whether it has */
bool name_of_descriptor(int fd, char* path, unsigned long size);

}  // namespace reprise::api
