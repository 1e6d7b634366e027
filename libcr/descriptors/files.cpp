// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Regular files, directories and devices without state: reopened by path.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "descriptors/kinds.h"
#include "restore/nameless_files.h"

namespace reprise {

int open_flags(const Description& description) {
  // Drop flags that create or change the file: O_CREAT, O_EXCL, O_TRUNC, O_TMPFILE.
  constexpr std::uint32_t nameless = O_TMPFILE & ~O_DIRECTORY;
  constexpr int again = O_ACCMODE | O_APPEND | O_NONBLOCK | O_SYNC | O_DSYNC | O_DIRECT | O_LARGEFILE | O_DIRECTORY |
                        O_NOATIME | O_PATH;
  const int flags = static_cast<int>(description.flags()) & again;
  // O_TMPFILE includes O_DIRECTORY, but the file is not a directory.
  return description.flags() & nameless ? flags & ~O_DIRECTORY : flags;
}

ProcPath parse_proc_path(const std::string& path) {
  ProcPath out;
  char rest = 0;
  if (std::sscanf(path.c_str(), "/proc/%d%c", &out.pid, &rest) < 1 || (rest && rest != '/')) return {};
  if (std::sscanf(path.c_str(), "/proc/%*d/task/%d%c", &out.tid, &rest) < 1 || (rest && rest != '/')) out.tid = 0;
  return out;
}

UniqueFd reopen_fd(int fd, int flags) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return UniqueFd(::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY));
}

UniqueFd reopen_path(Restorer& restorer, std::uint32_t index, int extra_flags, int access) {
  const Description& description = restorer.description(index);
  const File& file = description.file();
  const bool restart = restorer.mode == RestoreMode::restart;
  const std::string path = restart ? restorer.options.relocated(file.path()) : file.path();
  const std::string named = path == file.path() ? "" : path + ": ";

  // Open with O_PATH first and check the type: a plain open may block or have side effects.
  UniqueFd name = restorer.behalf.open(path, O_PATH | (S_ISLNK(file.mode()) ? O_NOFOLLOW : 0));
  if (!name && errno == EXDEV) restorer.fail(index, "lies outside of the root directory of the process (chroot)", EXDEV);
  if (!name) restorer.fail(index, named + "cannot be opened", errno);
  struct ::stat now;
  if (::fstat(name.get(), &now) != 0) restorer.fail(index, named + "cannot be examined", errno);
  if ((now.st_mode & S_IFMT) != (file.mode() & S_IFMT) ||
      ((S_ISCHR(now.st_mode) || S_ISBLK(now.st_mode)) && now.st_rdev != file.rdev()))
    restorer.fail(index, named + "something else has that name now", ESTALE);
  const bool plain = S_ISREG(now.st_mode) || S_ISDIR(now.st_mode);
  struct statfs system = {};
  // procfs allocates inode numbers dynamically: they identify nothing.
  const bool by_name = ::fstatfs(name.get(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
  const bool same = by_name || (now.st_ino == file.ino() && now.st_dev == file.dev());
  if (plain && !same) {
    if (!restart) restorer.fail(index, "another file has that name now", ESTALE);
    // A restart often uses a copy of the file, on this node or on another one.
    restorer.warn(index, named + "not the very file of the checkpoint (another inode): used as it is");
  }
  if (const ProcPath whose = parse_proc_path(path); by_name && whose.pid > 0 && whose.pid != restorer.image.pid())
    restorer.warn(index, named + "belongs to the process that has this pid now, which may be another one");
  int flags = open_flags(description) | extra_flags;
  if (flags & O_PATH) return name;
  if (access >= 0) flags = (flags & ~O_ACCMODE) | access;
  UniqueFd fd = restorer.behalf.open_found(name, path, flags);
  if (!fd) restorer.fail(index, named + "cannot be opened", errno);
  return fd;
}

namespace {

UniqueFd open_deleted(Restorer& restorer, std::uint32_t index) {
  const Description& description = restorer.description(index);
  const int flags = open_flags(description);
  if (description.kind() == Description::DIRECTORY)
    return restorer.behalf.reopen(restorer.nameless->folder(description.file()), flags);
  UniqueFd fd = restorer.nameless->open(description.shared_object(), flags);
  if (description.outside() && restorer.nameless->made().count(description.shared_object()))
    restorer.warn(index, "had been deleted, and another process also has it open: this one has a file of its own now");
  return fd;
}

}  // namespace

void make_file(Restorer& restorer, std::uint32_t index) {
  const Description& description = restorer.description(index);
  if (!description.file().deleted() || description.kind() == Description::CHARDEV) {
    restorer.made[index] = reopen_path(restorer, index);
    return;
  }
  if (!restorer.nameless) restorer.fail(index, "was not made", EBADF);
  UniqueFd fd = open_deleted(restorer, index);
  if (!fd) restorer.fail(index, "cannot be opened again", errno);
  restorer.made[index] = std::move(fd);
}

void restore_file_state(Restorer& restorer, std::uint32_t index) {
  const Description& description = restorer.description(index);
  const int access = static_cast<int>(description.flags()) & O_ACCMODE;
  if ((description.flags() & O_PATH) || access == O_RDONLY) return;
  struct ::stat now;
  if (!restorer.stat(index, now)) return;
  const auto old_size = static_cast<std::int64_t>(description.file().size());
  const std::int64_t mtime = now.st_mtim.tv_sec * 1'000'000'000LL + now.st_mtim.tv_nsec;
  const std::string sizes = std::to_string(old_size) + " -> " + std::to_string(now.st_size) + " bytes";
  if (now.st_size > old_size) {
    if (!restorer.options.rewind_files)
      restorer.warn(index, "has grown since the checkpoint, " + sizes + ": kept (--rewind-files cuts it back)");
    else if (::ftruncate(restorer.must_fd(index), old_size) != 0)
      restorer.warn(index, "has grown since the checkpoint, " + sizes + ", and cannot be cut back: " +
                               error_text(errno));
  } else if (now.st_size < old_size) {
    restorer.warn(index, "is shorter than at the checkpoint, " + sizes);
  } else if (mtime != description.file().mtime_ns()) {
    restorer.warn(index, "was written to since the checkpoint: its content is as it is now");
  }
}

}  // namespace reprise
