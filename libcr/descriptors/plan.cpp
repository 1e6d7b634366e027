// SPDX-License-Identifier: LGPL-2.1-or-later
#include "descriptors/plan.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace reprise {
namespace {

/**
 * Can what has this inode be of the kind that the image says? Serials tell descriptions of one boot apart, but an image
 * may say anything: a device must not be emptied as a pipe. Kinds without a file of their own show it in fdinfo.
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
                                const std::set<std::uint32_t>& replace) {
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
    if (serial && now != by_number.end() && now->second->serial == serial) {
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

EpollChanges plan_epoll(const Epoll& image, const Epoll& live) {
  EpollChanges changes;
  std::map<int, const Epoll::Entry*> now;
  for (const Epoll::Entry& entry : live.entries()) now[entry.fd()] = &entry;
  std::set<int> wanted;
  for (const Epoll::Entry& entry : image.entries()) {
    wanted.insert(entry.fd());
    const auto found = now.find(entry.fd());
    // An edge that was seen after the checkpoint has to be told once more: setting the entry again arms it.
    const bool edge = (entry.events() & EPOLLET) != 0;
    if (found == now.end() || edge || found->second->events() != entry.events() ||
        found->second->data() != entry.data())
      changes.set.push_back(entry);
  }
  for (const auto& [fd, entry] : now)
    if (!wanted.count(fd)) changes.drop.push_back(fd);
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
