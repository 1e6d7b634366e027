// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/parked_fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace reprise::api {
namespace {

/** Open @p path as descriptor @p fd, replacing what is there. @return false on failure */
bool put(const char* path, int flags, int fd, int descriptor_flags) {
  const int opened = open(path, flags | O_CLOEXEC);
  if (opened < 0) return false;
  const bool done = dup3(opened, fd, (descriptor_flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0) == fd;
  close(opened);
  return done;
}

}  // namespace

bool name_of_descriptor(int fd, char* path, unsigned long size) {
  path[0] = '\0';
  char link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t len = readlink(link, path, size - 1);
  path[len > 0 && path[0] == '/' ? len : 0] = '\0';
  struct stat opened {}, named {};
  if (path[0] != '\0' && fstat(fd, &opened) == 0 && stat(path, &named) == 0 && opened.st_dev == named.st_dev &&
      opened.st_ino == named.st_ino)
    return true;
  path[0] = '\0';
  return false;
}

bool ParkedFd::untouched() const {
  struct stat status {};
  return fd_ >= 0 && fstat(fd_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

void ParkedFd::park(int fd, bool away) {
  fd_ = -1;
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || !name_of_descriptor(fd, path_, sizeof path_)) return;
  flags_ = fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND);
  descriptor_flags_ = fcntl(fd, F_GETFD);
  if (away && (!put("/dev/null", flags_, fd, descriptor_flags_) || fstat(fd, &status) != 0)) return;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  fd_ = fd;
}

void ParkedFd::give_back() {
  const int saved = errno;
  if (untouched()) put(path_, flags_, fd_, descriptor_flags_);
  fd_ = -1;
  errno = saved;
}

}  // namespace reprise::api
