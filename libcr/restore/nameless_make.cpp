// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Create files, directories and FIFOs without a name. Where a temporary name is needed, it is a new random one and is
// unlinked at once.
#include <csignal>
#include <cstdio>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "restore/nameless_files.h"

namespace reprise {
namespace {

/** Blocks all signals while a temporary name exists, so that only SIGKILL can leave it behind. */
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() {
    const int code = errno;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = code;
  }

 private:
  sigset_t before_;
};

std::string unlikely_name() {
  unsigned long long number[2] = {};
  if (::getrandom(number, sizeof number, 0) != sizeof number) return {};
  char name[64];
  std::snprintf(name, sizeof name, ".reprise-%016llx%016llx", number[0], number[1]);
  return name;
}

/**
 * Create a file under a temporary name, open it and unlink the name. Other processes may write to the directory: if the
 * name refers to another file than the opened one, it is not unlinked and the call fails with ESTALE.
 * @param make  creates the file under a name that must not exist; returns whether it did
 * @param open  opens it by name
 */
template <class Make, class Open>
UniqueFd by_passing_name(int folder, int unlink_flags, Make make, Open open) {
  const NoSignals until_it_is_gone;
  const std::string name = unlikely_name();
  if (name.empty() || !make(name.c_str())) return {};
  UniqueFd made = open(name.c_str());
  const int code = errno;
  struct stat named {}, opened {};
  if (made && ::fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 && ::fstat(made.get(), &opened) == 0 &&
      (named.st_ino != opened.st_ino || named.st_dev != opened.st_dev)) {
    errno = ESTALE;
    return {};
  }
  if (::unlinkat(folder, name.c_str(), unlink_flags) != 0) return {};
  errno = code;
  return made;
}

}  // namespace

UniqueFd make_nameless_file(int folder, bool by_name) {
  if (!by_name) {
    // Without O_EXCL, so that the process can still link the file to a name (linkat(2)).
    UniqueFd made(::openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (made || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return made;
  }
  UniqueFd made;
  return by_passing_name(
      folder, 0,
      [&](const char* name) {
        made.reset(::openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        return static_cast<bool>(made);
      },
      [&](const char*) { return std::move(made); });
}

UniqueFd make_nameless_folder(int folder) {
  return by_passing_name(
      folder, AT_REMOVEDIR, [&](const char* name) { return ::mkdirat(folder, name, 0700) == 0; },
      [&](const char* name) {
        return UniqueFd(::openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      });
}

UniqueFd make_nameless_fifo(int folder) {
  return by_passing_name(
      folder, 0, [&](const char* name) { return ::mknodat(folder, name, S_IFIFO | 0600, 0) == 0; },
      [&](const char* name) { return UniqueFd(::openat(folder, name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC)); });
}

}  // namespace reprise
