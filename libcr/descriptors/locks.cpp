// SPDX-License-Identifier: LGPL-2.1-or-later
//
// File locks. POSIX locks belong to the process, so the target sets them by its own calls. flock and OFD locks belong
// to the open file description, so we set them through our descriptor for it.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/proc_dir.h"
#include "base/text.h"
#include "descriptors/fdinfo.h"
#include "descriptors/kinds.h"
#include "descriptors/plan.h"
#include "session/remote.h"

namespace reprise {
namespace {

struct flock to_flock(const Lock& lock) {
  struct flock range = {};
  range.l_type = static_cast<short>(lock.type());
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(lock.start());
  range.l_len = static_cast<off_t>(lock.length());
  return range;
}

/** Take a flock or OFD lock. @return 0 or errno */
int take(int fd, const Lock& lock) {
  if (lock.flock()) return ::flock(fd, (lock.type() == F_WRLCK ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0 ? 0 : errno;
  struct flock range = to_flock(lock);
  return ::fcntl(fd, F_OFD_SETLK, &range) == 0 ? 0 : errno;
}

bool is_posix(const Lock& lock) { return !lock.flock() && !lock.ofd(); }

std::string lock_text(const Lock& lock) {
  return std::string("its ") + (lock.flock() ? "flock" : lock.ofd() ? "OFD lock" : "lock") + " on bytes " +
         std::to_string(lock.start()) + " to " +
         (lock.length() ? std::to_string(lock.start() + lock.length() - 1) : std::string("the end"));
}

using Inode = std::pair<std::uint64_t, std::uint64_t>;

/** Does the target itself lock this file? Its current locks are released before the saved ones are taken. */
bool locked_by_target(const Restorer& restorer, std::uint64_t inode) {
  const ProcDir fdinfo(restorer.source.pid(), "fdinfo");
  for (const cr_fd& live : restorer.live) {
    if (live.ino != inode) continue;
    const auto text = fdinfo.try_read(std::to_string(live.fd));
    if (text && !parse_locks(*text).empty()) return true;
  }
  return false;
}

}  // namespace

void check_locks(Restorer& restorer, Refusals& refusals) {
  for (std::uint32_t index = 0; index < restorer.decisions.size(); ++index) {
    if (restorer.way(index) != Way::make) continue;
    const auto made = restorer.made.find(index);
    if (made == restorer.made.end()) continue;
    for (const Lock& lock : restorer.description(index).locks()) {
      int code = 0;
      if (is_posix(lock)) {
        struct flock range = to_flock(lock);
        if (::fcntl(made->second.get(), F_GETLK, &range) == 0 && range.l_type != F_UNLCK &&
            range.l_pid != restorer.source.pid())
          code = EAGAIN;
      } else {
        code = take(made->second.get(), lock);
      }
      if (code != 0 && !(code == EAGAIN && locked_by_target(restorer, restorer.description(index).file().ino())))
        refusals.add(description_text(restorer.image, index) + ": " + lock_text(lock) + " cannot be had again: " +
                     (code == EAGAIN ? "somebody else has it (does the old process still run?)" : error_text(code)));
    }
  }
}

void restore_locks(Restorer& restorer, Remote& remote) {
  // Read fdinfo instead of /proc/locks, which waits for an RCU grace period (about ten milliseconds).
  const ProcDir fdinfo(restorer.source.pid(), "fdinfo");
  std::map<Inode, std::vector<std::uint32_t>> files;
  std::map<std::uint32_t, std::vector<Lock>> held;
  for (std::uint32_t index = 0; index < restorer.decisions.size(); ++index) {
    const Description& description = restorer.description(index);
    if (restorer.way(index) != Way::keep && restorer.way(index) != Way::make) continue;
    if (!description.has_file()) continue;
    std::vector<Lock> now = parse_locks(fdinfo.read(std::to_string(restorer.number(index))));
    struct ::stat status;
    if ((description.locks_size() == 0 && now.empty()) || !restorer.stat(index, status)) continue;
    files[{status.st_dev, status.st_ino}].push_back(index);
    held[index] = std::move(now);
  }
  for (const auto& [inode, members] : files) {
    bool posix_differs = false;
    std::vector<std::uint32_t> changed;
    for (const std::uint32_t index : members) {
      const auto& saved = restorer.description(index).locks();
      const std::vector<Lock> wanted(saved.begin(), saved.end()), &now = held[index];
      if (same_locks(wanted, now)) continue;
      changed.push_back(index);
      posix_differs |= std::any_of(wanted.begin(), wanted.end(), is_posix) || std::any_of(now.begin(), now.end(), is_posix);
    }
    const auto lost = [&](std::uint32_t index, const Lock& lock, int code) {
      restorer.warn(index, lock_text(lock) + " is lost: " + error_text(code));
    };
    struct flock everything = {};
    everything.l_type = F_UNLCK;
    // First release all: since the checkpoint, one description may have taken the lock of another.
    for (const std::uint32_t index : changed) {
      ::fcntl(restorer.must_fd(index), F_OFD_SETLK, &everything);
      ::flock(restorer.must_fd(index), LOCK_UN);
    }
    for (const std::uint32_t index : changed)
      for (const Lock& lock : restorer.description(index).locks())
        if (!is_posix(lock))
          if (const int code = take(restorer.must_fd(index), lock)) lost(index, lock, code);
    if (!posix_differs) continue;
    // A process has one set of POSIX locks for each inode, whichever descriptor it used.
    const auto set = [&](int number, const struct flock& range) {
      const std::uint64_t argument = remote.argument_of(range);
      const std::size_t call = remote.add(
          {SYS_fcntl, {static_cast<std::uint64_t>(number), static_cast<std::uint64_t>(F_SETLK), argument}}, false);
      return remote.run()[call];
    };
    set(restorer.number(members.front()), everything);
    for (const std::uint32_t index : members)
      for (const Lock& lock : restorer.description(index).locks())
        if (is_posix(lock))
          if (const auto result = set(restorer.number(index), to_flock(lock)); result < 0)
            lost(index, lock, static_cast<int>(-result));
  }
}

}  // namespace reprise
