// SPDX-License-Identifier: LGPL-2.1-or-later
//
// epoll sets. An entry is a file under a descriptor number, so the set is changed by
// calls of the target itself, when its descriptors are in place.
#include <sys/epoll.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/proc_dir.h"
#include "base/text.h"
#include "descriptors/fdinfo.h"
#include "descriptors/kinds.h"
#include "descriptors/plan.h"
#include "session/remote.h"

namespace reprise {
namespace {

/** Number under which the target has, or will have, the set. */
int number_of(const Restorer& restorer, std::uint32_t index) { return restorer.number(index); }

bool is_epoll(const Restorer& restorer, std::uint32_t index) {
  return restorer.description(index).kind() == Description::EPOLL &&
         (restorer.way(index) == Way::keep || restorer.way(index) == Way::make);
}

std::uint64_t event_argument(Remote& remote, const Epoll::Entry& entry) {
  epoll_event event = {};
  event.events = entry.events();
  event.data.u64 = entry.data();
  return remote.argument_of(event);
}

Remote::Call control(int set, int operation, int fd, std::uint64_t event) {
  return {SYS_epoll_ctl,
          {static_cast<std::uint64_t>(set), static_cast<std::uint64_t>(operation), static_cast<std::uint64_t>(fd),
           event}};
}

std::map<int, std::uint64_t> inodes_of_table(const std::vector<cr_fd>& fds) {
  std::map<int, std::uint64_t> inodes;
  for (const cr_fd& fd : fds) inodes[fd.fd] = fd.ino;
  return inodes;
}

}  // namespace

void collect_epoll(Collector& collector, const cr_fd& fd, Description& description) {
  *description.mutable_epoll() = parse_epoll(collector.fdinfo(fd.fd));
}

void make_epoll(Restorer& restorer, std::uint32_t index) {
  UniqueFd fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd) restorer.fail(index, "cannot be made", errno);
  restorer.made[index] = std::move(fd);
}

void prune_epolls(Restorer& restorer, Remote& remote) {
  for (const auto& [index, number] : restorer.alive) {
    if (!is_epoll(restorer, index)) continue;
    const EpollChanges changes = plan_epoll(restorer.description(index).epoll(), parse_epoll(restorer.fdinfo(index)));
    // An entry whose descriptor was closed while a duplicate lives cannot be named: it fails, and stays.
    for (const int fd : changes.drop) remote.add(control(number, EPOLL_CTL_DEL, fd, 0), false);
    if (!changes.drop.empty()) remote.run();
  }
}

void restore_epolls(Restorer& restorer, Remote& remote) {
  std::map<int, std::uint32_t> described;
  for (const Descriptor& descriptor : restorer.image.descriptors())
    described[descriptor.fd()] = descriptor.description();
  const auto live_inodes = inodes_of_table(restorer.live);

  for (std::uint32_t index = 0; index < restorer.decisions.size(); ++index) {
    if (!is_epoll(restorer, index)) continue;
    const int set = number_of(restorer, index);
    Epoll now;
    if (restorer.way(index) == Way::keep) now = parse_epoll(ProcDir(restorer.source.pid(), "fdinfo").read(std::to_string(set)));
    for (const Epoll::Entry& entry : plan_epoll(restorer.description(index).epoll(), now).set) {
      const auto under = described.find(entry.fd());
      const std::string which = "its entry for descriptor " + std::to_string(entry.fd());
      if (under == described.end()) {
        // Was there already at the checkpoint: a closed number of a file that lived on elsewhere.
        if (restorer.way(index) != Way::keep)
          restorer.warn(index, which + " is left out: it was closed at the checkpoint");
        continue;
      }
      const std::uint64_t event = event_argument(remote, entry);
      std::int64_t result;
      if (entry.events() & EPOLLEXCLUSIVE) {
        // Such an entry cannot be modified.
        remote.call(0, SYS_epoll_ctl, static_cast<std::uint64_t>(set), EPOLL_CTL_DEL,
                    static_cast<std::uint64_t>(entry.fd()), 0);
        result = -ENOENT;
      } else {
        const std::size_t call = remote.add(control(set, EPOLL_CTL_MOD, entry.fd(), event), false);
        result = remote.run()[call];
      }
      if (result == -ENOENT) {
        const std::uint64_t again = event_argument(remote, entry);
        const std::size_t call = remote.add(control(set, EPOLL_CTL_ADD, entry.fd(), again), false);
        result = remote.run()[call];
      }
      // A substitute may be something that cannot be waited for, as a regular file.
      if (result == -EPERM)
        restorer.warn(index, which + " is left out: it cannot be waited for");
      else if (result < 0)
        restorer.fail(index, which, static_cast<int>(-result));
    }
  }
}

}  // namespace reprise
