// SPDX-License-Identifier: LGPL-2.1-or-later
//
// inotify instances. A watch consists of a number, an inode and a mask. The kernel assigns the numbers in ascending
// order, and the program has them in its memory.
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/proc_dir.h"
#include "base/text.h"
#include "descriptors/fdinfo.h"
#include "descriptors/kinds.h"
#include "restore/target_paths.h"

namespace reprise {
namespace {

constexpr int kMostNumbers = 1 << 20;  // most watch numbers to skip one by one

/** @return an open mount point of the file system with device @p dev, from the target's mounts; empty if none */
UniqueFd open_mount(const Collector& collector, std::uint64_t dev) {
  const auto mounts = ProcDir(collector.source.pid()).try_read("mountinfo");
  if (!mounts) return {};
  const TargetPaths paths(collector.source.pid());
  std::size_t at = 0;
  while (at < mounts->size()) {
    const std::size_t end = std::min(mounts->find('\n', at), mounts->size());
    const std::string line = mounts->substr(at, end - at);
    at = end + 1;
    unsigned major_number = 0, minor_number = 0;
    char where[4096];
    if (std::sscanf(line.c_str(), "%*d %*d %u:%u %*s %4095s", &major_number, &minor_number, where) != 3) continue;
    if (makedev(major_number, minor_number) != dev) continue;
    UniqueFd mount = paths.open(where, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (!mount) mount = paths.open(where, O_RDONLY | O_NONBLOCK | O_NOCTTY);  // a file that was bind-mounted
    if (mount) return mount;
  }
  return {};
}

std::string path_of_handle(const Collector& collector, const InotifyInfo& info) {
  if (info.handle.empty() || info.handle.size() > MAX_HANDLE_SZ) return {};
  const UniqueFd mount = open_mount(collector, info.watch.dev());
  if (!mount) return {};
  const auto space = std::make_unique<char[]>(sizeof(file_handle) + info.handle.size());
  auto* handle = reinterpret_cast<file_handle*>(space.get());
  handle->handle_bytes = static_cast<unsigned>(info.handle.size());
  handle->handle_type = info.handle_type;
  std::memcpy(space.get() + sizeof(file_handle), info.handle.data(), info.handle.size());
  const UniqueFd file(::open_by_handle_at(mount.get(), handle, O_PATH | O_CLOEXEC));
  if (!file) return {};
  const std::string path = ProcDir("/proc/self/fd").link(std::to_string(file.get()));
  struct ::stat named, opened;
  if (path.empty() || path.front() != '/' || ::fstat(file.get(), &opened) != 0) return {};
  const UniqueFd again = TargetPaths(collector.source.pid()).open(path, O_PATH);
  if (!again || ::fstat(again.get(), &named) != 0 || named.st_ino != opened.st_ino || named.st_dev != opened.st_dev)
    return {};
  return path;
}

/** Find the path without CAP_DAC_READ_SEARCH: try the working directory and the open files of the process. */
std::string path_nearby(const Collector& collector, const InotifyInfo& info) {
  const ProcDir proc(collector.source.pid());
  const auto matches = [&](const std::string& name, const ProcDir& dir) {
    struct ::stat status;
    return dir.stat(name, status) && status.st_ino == info.watch.ino() && status.st_dev == info.watch.dev();
  };
  if (matches("cwd", proc)) return proc.link("cwd");
  const ProcDir fds(collector.source.pid(), "fd");
  for (const cr_fd& fd : collector.fds) {
    const std::string name = std::to_string(fd.fd);
    if (!matches(name, fds)) continue;
    const std::string path = fds.link(name);
    if (!path.empty() && path.front() == '/') return path;
  }
  return {};
}

/** Add a watch with its number; skip the numbers of watches that the program had removed before. */
void add_watch(Restorer& restorer, std::uint32_t index, int fd, const Inotify::Watch& watch, int& next) {
  const bool restart = restorer.mode == RestoreMode::restart;
  const std::string path = restart ? restorer.options.relocated(watch.path()) : watch.path();
  const std::string which = "watch " + std::to_string(watch.wd()) + " of " + path;
  const OnBehalf::Rights rights(restorer.behalf);
  const UniqueFd file = restorer.behalf.open(path, O_PATH);
  if (!file) restorer.fail(index, which, errno);
  struct ::stat now;
  if (::fstat(file.get(), &now) != 0) restorer.fail(index, which, errno);
  if (now.st_ino != watch.ino() || now.st_dev != watch.dev()) {
    if (!restart) restorer.fail(index, which + ": another file has that name now", ESTALE);
    restorer.warn(index, which + ": not the very file of the checkpoint (another inode)");
  }
  const std::string name = "/proc/self/fd/" + std::to_string(file.get());
  const std::uint32_t mask = watch.mask() & (IN_ALL_EVENTS | IN_ONESHOT | IN_EXCL_UNLINK);
  for (;;) {
    const int got = ::inotify_add_watch(fd, name.c_str(), mask);
    if (got < 0) restorer.fail(index, which, errno);
    next = got + 1;
    if (got == watch.wd()) return;
    ::inotify_rm_watch(fd, got);
    if (got > watch.wd()) restorer.fail(index, which + " cannot have its number", EEXIST);
  }
}

/** Discard the events that skipping numbers has queued (IN_IGNORED). */
void drain(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  char events[4096];
  while (::read(fd, events, sizeof events) > 0) {
  }
  ::fcntl(fd, F_SETFL, flags);
}

}  // namespace

void collect_inotify(Collector& collector, const cr_fd& fd, Description& description) {
  for (InotifyInfo& info : parse_inotify(collector.fdinfo(fd.fd))) {
    std::string path = path_of_handle(collector, info);
    if (path.empty()) path = path_nearby(collector, info);
    info.watch.set_path(path);
    *description.mutable_inotify()->add_watches() = info.watch;
  }
}

void make_inotify(Restorer& restorer, std::uint32_t index) {
  const Description& description = restorer.description(index);
  UniqueFd fd(::inotify_init1(IN_CLOEXEC | (open_flags(description) & IN_NONBLOCK)));
  if (!fd) restorer.fail(index, "cannot be made", errno);
  std::vector<Inotify::Watch> watches(description.inotify().watches().begin(), description.inotify().watches().end());
  std::sort(watches.begin(), watches.end(), [](const auto& a, const auto& b) { return a.wd() < b.wd(); });
  // Limit the total of skipped numbers.
  if (!watches.empty() && watches.back().wd() - static_cast<int>(watches.size()) > kMostNumbers)
    restorer.fail(index, "watch " + std::to_string(watches.back().wd()) + " has too high a number", EOVERFLOW);
  int next = 1;
  for (const auto& watch : watches) add_watch(restorer, index, fd.get(), watch, next);
  drain(fd.get());
  restorer.made[index] = std::move(fd);
}

void restore_inotify_state(Restorer& restorer, std::uint32_t index) {
  if (restorer.made.count(index)) return;
  std::map<int, const Inotify::Watch*> wanted;
  for (const auto& watch : restorer.description(index).inotify().watches()) wanted[watch.wd()] = &watch;
  const auto now = parse_inotify(restorer.fdinfo(index));
  for (const InotifyInfo& info : now) {
    const auto found = wanted.find(info.watch.wd());
    if (found == wanted.end()) {
      ::inotify_rm_watch(restorer.must_fd(index), info.watch.wd());
      continue;
    }
    if (found->second->mask() != info.watch.mask()) {
      int next = info.watch.wd();
      add_watch(restorer, index, restorer.must_fd(index), *found->second, next);
    }
    wanted.erase(found);
  }
}

bool inotify_lost(const Description& description, const std::string& fdinfo) {
  const auto now = parse_inotify(fdinfo);
  for (const auto& watch : description.inotify().watches()) {
    const auto has = [&](const InotifyInfo& info) {
      return info.watch.wd() == watch.wd() && info.watch.ino() == watch.ino() &&
             (info.watch.mask() == watch.mask() || !watch.path().empty());
    };
    if (std::none_of(now.begin(), now.end(), has)) return true;
  }
  return false;
}

}  // namespace reprise
