// SPDX-License-Identifier: LGPL-2.1-or-later
#include "base/kept_make.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/kept_name.h"

namespace reprise {
namespace {

// Newer than some C libraries' headers.
constexpr unsigned kCloexec = 0x1, kAllowSealing = 0x2, kNoexecSeal = 0x8;  // MFD_*
constexpr int kAddSeals = 1033;                                              // F_ADD_SEALS
constexpr int kSealShrink = 0x2, kSealGrow = 0x4;                            // F_SEAL_*

int make_memfd(const char* name, bool copied) {
  char full[256];  // the kernel allows 249 characters
  const char* prefix = copied ? kCopiedPrefix : kKeptPrefix;
  if (std::snprintf(full, sizeof full, "%s%s", prefix, name) >= static_cast<int>(sizeof full)) return errno = EINVAL, -1;
  // A system may forbid memory files that can be executed (vm.memfd_noexec). Kernels before 6.3 know no others.
  const long fd = syscall(SYS_memfd_create, full, kCloexec | kAllowSealing | kNoexecSeal);
  if (fd >= 0 || errno != EINVAL) return static_cast<int>(fd);
  return static_cast<int>(syscall(SYS_memfd_create, full, kCloexec | kAllowSealing));
}

}  // namespace

bool seal_size(int fd) { return fcntl(fd, kAddSeals, kSealShrink | kSealGrow) == 0; }

int make_kept_memory(const char* name, std::size_t bytes, bool copied) {
  const int fd = make_memfd(name, copied);
  if (fd < 0 || (ftruncate(fd, static_cast<off_t>(bytes)) == 0 && seal_size(fd))) return fd;
  const int err = errno;
  close(fd);
  errno = err;
  return -1;
}

}  // namespace reprise
