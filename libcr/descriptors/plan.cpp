// SPDX-License-Identifier: LGPL-2.1-or-later
#include "descriptors/plan.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace reprise {
namespace {

/**
 * Is an inode with this @p mode possible for the kind that the image gives? Serials identify descriptions of one boot,
 * but an image is untrusted: a device must not be drained like a pipe. Kinds on anonymous inodes are checked by their
 * fdinfo.
 */
bool may_be(const Description& description, std::uint32_t mode) {
  if (!(mode & S_IFMT)) return true;
  switch (description.kind()) {
    case Description::REGULAR: return S_ISREG(mode) || ((description.flags() & O_PATH) && !S_ISDIR(mode));
    case Description::DIRECTORY: return S_ISDIR(mode);
    case Description::PIPE:
    case Description::FIFO: return S_ISFIFO(mode);
    case Description::SOCKET: return S_ISSOCK(mode);
    case Description::CHARDEV:
    case Description::TERMINAL: return S_ISCHR(mode) || S_ISBLK(mode);
    case Description::OTHER: return true;
    default: return !S_ISFIFO(mode) && !S_ISSOCK(mode) && !S_ISDIR(mode);
  }
}

}  // namespace

DescriptorPlan plan_descriptors(const Process& image, std::span<const cr_fd> live, bool match,
                                const std::set<std::uint32_t>& replace, const std::set<int>& keep_pipes) {
  DescriptorPlan plan;
  std::map<int, const cr_fd*> by_number;
  std::map<std::uint64_t, int> by_serial;
  for (const cr_fd& fd : live) {
    by_number[fd.fd] = &fd;
    if (fd.serial) by_serial.emplace(fd.serial, fd.fd);
  }

  std::set<int> wanted;
  std::set<std::uint32_t> used;
  for (const Descriptor& descriptor : image.descriptors()) {
    const std::uint32_t index = descriptor.description();
    const Description& description = image.descriptions(static_cast<int>(index));
    std::uint64_t serial = match && !replace.count(index) ? description.serial() : 0;
    if (const auto found = by_serial.find(serial);
        found != by_serial.end() && !may_be(description, by_number.at(found->second)->mode))
      serial = 0;
    wanted.insert(descriptor.fd());
    used.insert(index);
    if (serial)
      if (const auto found = by_serial.find(serial); found != by_serial.end()) plan.alive[index] = found->second;
    const auto now = by_number.find(descriptor.fd());
    const bool in_its_place = keep_pipes.count(descriptor.fd()) && description.kind() == Description::PIPE && description.pipe().outside() &&
                              !by_serial.count(serial) && now != by_number.end() && S_ISFIFO(now->second->mode);
    if (in_its_place || (serial && now != by_number.end() && now->second->serial == serial)) {
      plan.kept[index] = descriptor.fd();
      if (((now->second->flags & CR_FD_CLOEXEC) != 0) != descriptor.cloexec())
        plan.cloexec.push_back({descriptor.fd(), index, descriptor.cloexec()});
    } else {
      plan.install.push_back({descriptor.fd(), index, descriptor.cloexec()});
    }
  }
  for (const auto& [index, fd] : plan.kept) plan.alive[index] = fd;
  for (const std::uint32_t index : used)
    if (!plan.alive.count(index)) plan.make.push_back(index);
  for (const cr_fd& fd : live)
    if (!wanted.count(fd.fd)) plan.close.push_back(fd.fd);
  std::sort(plan.install.begin(), plan.install.end(), [](const auto& a, const auto& b) { return a.fd < b.fd; });
  return plan;
}

std::vector<int> numbers_of(const Process& image, std::uint32_t description) {
  std::vector<int> numbers;
  for (const Descriptor& descriptor : image.descriptors())
    if (descriptor.description() == description) numbers.push_back(descriptor.fd());
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

bool has_fired(const Epoll::Entry& entry) {
  constexpr std::uint32_t not_events = EPOLLET | EPOLLONESHOT | EPOLLWAKEUP | EPOLLEXCLUSIVE;
  return (entry.events() & EPOLLONESHOT) && !(entry.events() & ~not_events);
}

EpollChanges plan_epoll(const Epoll& image, const std::vector<LiveEntry>& live) {
  EpollChanges changes;
  std::map<std::pair<std::uint32_t, int>, std::size_t> known;
  std::set<std::size_t> surplus;
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (live[i].entry.description()) known[{live[i].entry.description(), live[i].entry.fd()}] = i;
    surplus.insert(i);
  }
  for (const Epoll::Entry& entry : image.entries()) {
    const auto same_state = [&](const Epoll::Entry& now) {
      return now.events() == entry.events() && now.data() == entry.data();
    };
    if (!entry.description()) {
      if (!entry.elsewhere()) continue;
      const auto same = std::find_if(surplus.begin(), surplus.end(), [&](std::size_t i) {
        const Epoll::Entry& now = live[i].entry;
        return !now.description() && now.fd() == entry.fd() && now.ino() == entry.ino() && now.dev() == entry.dev() &&
               same_state(now);
      });
      if (same == surplus.end())
        changes.lost.push_back(entry);
      else
        surplus.erase(same);
      continue;
    }
    const auto found = known.find({entry.description(), entry.fd()});
    if (found == known.end()) {
      changes.set.push_back({entry, EpollChanges::How::add});
      continue;
    }
    surplus.erase(found->second);
    const Epoll::Entry& now = live[found->second].entry;
    // An edge-triggered event reported since the checkpoint must be reported again: EPOLL_CTL_MOD rearms the entry.
    const bool edge = (entry.events() & EPOLLET) && !has_fired(entry);
    if (same_state(now) && !edge) continue;
    // EPOLL_CTL_MOD fails for entries that have or get EPOLLEXCLUSIVE.
    const bool exclusive = (entry.events() | now.events()) & EPOLLEXCLUSIVE;
    changes.set.push_back({entry, exclusive ? EpollChanges::How::replace : EpollChanges::How::modify});
  }
  for (const std::size_t i : surplus) {
    if (live[i].file >= 0)
      changes.drop.push_back(live[i]);
    else
      changes.stuck.push_back(live[i].entry);
  }
  return changes;
}

bool same_locks(std::vector<Lock> a, std::vector<Lock> b) {
  const auto key = [](const Lock& lock) {
    return std::tuple(lock.flock(), lock.ofd(), lock.type(), lock.start(), lock.length());
  };
  const auto less = [&](const Lock& x, const Lock& y) { return key(x) < key(y); };
  std::sort(a.begin(), a.end(), less);
  std::sort(b.begin(), b.end(), less);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Lock& x, const Lock& y) { return key(x) == key(y); });
}

}  // namespace reprise
