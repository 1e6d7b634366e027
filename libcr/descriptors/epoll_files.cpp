// SPDX-License-Identifier: LGPL-2.1-or-later
#include "descriptors/epoll_files.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

namespace reprise {
namespace {

/** @return st_dev of sockfs, on which all sockets are */
std::uint64_t socket_device() {
  static const std::uint64_t device = [] {
    const UniqueFd any(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    struct ::stat status = {};
    return any && ::fstat(any.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_dev) : 0;
  }();
  return device;
}

}  // namespace

EpollFiles::EpollFiles(pid_t pid, std::span<const cr_fd> table) : pid_(pid) {
  for (const cr_fd& fd : table) {
    by_number_[fd.fd] = &fd;
    if (fd.same_as == fd.fd) by_inode_.emplace(fd.ino, &fd);
  }
}

int EpollFiles::description_at(int fd) const {
  const auto found = by_number_.find(fd);
  return found == by_number_.end() ? elsewhere : found->second->same_as;
}

/** The search for the file of one entry. */
struct EpollFiles::Search {
  pid_t pid;
  int set;
  const Epoll::Entry& entry;
  unsigned nth;  // index among the entries with the same number, in the kernel's order
  int error = 0;

  bool is(const cr_fd& fd) {
    if (fd.ino != entry.ino()) return false;
    // Each socket has its own inode. Other descriptions may share one: all eventfds, timerfds and so on have the same.
    if (S_ISSOCK(fd.mode) && entry.dev() == socket_device()) return true;
    kcmp_epoll_slot slot = {static_cast<std::uint32_t>(set), static_cast<std::uint32_t>(entry.fd()), nth};
    const long order = ::syscall(SYS_kcmp, pid, pid, KCMP_EPOLL_TFD, fd.fd, &slot);
    if (order < 0) error = errno;
    return order == 0;
  }
};

std::vector<int> EpollFiles::find(int set, const Epoll& entries) const {
  std::vector<int> files;
  std::map<int, unsigned> seen;
  for (const Epoll::Entry& entry : entries.entries()) {
    Search search = {pid_, set, entry, seen[entry.fd()]++};
    const auto at = by_number_.find(entry.fd());
    const bool likely = at != by_number_.end() && at->second->ino == entry.ino();
    int file = likely && search.is(*at->second) ? at->second->same_as : elsewhere;
    const auto [first, last] = by_inode_.equal_range(entry.ino());
    for (auto other = first; other != last && file == elsewhere && !search.error; ++other)
      if (search.is(*other->second)) file = other->second->same_as;
    if (search.error) file = likely ? at->second->same_as : unknown;
    files.push_back(file);
  }
  // Without kcmp() an entry is assumed to refer to the file at its number, unless several entries have that number.
  for (int i = 0; i < entries.entries_size(); ++i)
    if (const auto ambiguous = seen.find(entries.entries(i).fd()); ambiguous->second > 1)
      for (int j = 0; j < i; ++j)
        if (entries.entries(j).fd() == ambiguous->first && files[i] >= 0 && files[i] == files[j])
          files[i] = files[j] = unknown;
  return files;
}

namespace {

/** Make one change. Runs in a private descriptor table, so any number in it may be replaced. */
void control(int set, StrayControl& change) {
  // The set, or the file of another change, may have that number: move them out of the way.
  const UniqueFd epoll(::fcntl(set, F_DUPFD_CLOEXEC, change.number + 1));
  const UniqueFd there(::fcntl(change.number, F_DUPFD_CLOEXEC, change.number + 1));
  const bool in_place = change.file.get() == change.number;  // dup3 refuses that
  const bool placed = epoll && !in_place && ::dup3(change.file.get(), change.number, O_CLOEXEC) >= 0;
  const bool good = epoll && (placed || in_place) &&
                    ::epoll_ctl(epoll.get(), change.operation, change.number, &change.event) == 0;
  change.result = good ? 0 : errno;
  if (placed && there)
    ::dup3(there.get(), change.number, O_CLOEXEC);
  else if (placed)
    ::close(change.number);
}

struct Strays {
  int set;
  std::vector<StrayControl>* changes;
};

int control_all(void* arg) {
  const auto& strays = *static_cast<const Strays*>(arg);
  for (StrayControl& change : *strays.changes) control(strays.set, change);
  ::_exit(0);
}

}  // namespace

void control_strays(int set, std::vector<StrayControl>& changes) {
  if (changes.empty()) return;
  for (StrayControl& change : changes) change.result = EIO;
  // Clone a process that shares our memory but has a copy of our descriptor table. Not a thread with unshare(): when
  // the owner of a session closes any copy of the session's descriptor, the module ends the session.
  constexpr std::size_t stack_size = 256 << 10;
  const std::unique_ptr<char[]> stack(new char[stack_size]);
  Strays strays = {set, &changes};
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // a handler would run in both
  const pid_t child = ::clone(control_all, stack.get() + stack_size, CLONE_VM | CLONE_VFORK, &strays);
  const int code = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) {
    for (StrayControl& change : changes) change.result = code;
    return;
  }
  int status;
  while (::waitpid(child, &status, __WALL) < 0 && errno == EINTR) {
  }
}

}  // namespace reprise
