// SPDX-License-Identifier: LGPL-2.1-or-later
#include <sys/socket.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "image/validate_parts.h"

namespace reprise::image {
namespace {

constexpr std::uint32_t kMaxPipe = 1U << 31;
constexpr std::size_t kMaxOption = 1 << 16;    // twice the longest socket filter (BPF_MAXINSNS * 8 bytes)
constexpr std::size_t kMaxAddress = 128;  // struct sockaddr_storage

void validate_socket(const Checker& check, const Socket& socket, const std::string& what) {
  check.need(socket.family() < 256 && socket.type() < 16, [&] { return what + " is a socket of an unknown kind"; });
  check.need(socket.local().size() <= kMaxAddress && socket.peer().size() <= kMaxAddress,
             [&] { return what + " has an impossible socket address"; });
  check.need(socket.shut() <= 3 && (socket.inside() || socket.queue_size() == 0),
             [&] { return what + " has an impossible socket state"; });
  const auto type = static_cast<int>(socket.type());
  const bool known = type == SOCK_STREAM || type == SOCK_DGRAM || type == SOCK_SEQPACKET;
  check.need(!socket.inside() || (socket.family() == AF_UNIX && socket.ino() != 0 && !socket.listening() && known),
             [&] { return what + " has an impossible socket state"; });
  for (const auto& option : socket.options())
    check.need(option.value().size() <= kMaxOption, [&] { return what + " has an impossible socket option"; });
}

void validate_epoll(const Checker& check, const Process& process, const Epoll& set, const std::string& what) {
  if (set.entries_size() == 0) return;
  std::vector<bool> has_number(static_cast<std::size_t>(process.descriptions_size()));
  for (const auto& descriptor : process.descriptors()) has_number[descriptor.description()] = true;
  std::set<std::pair<std::uint32_t, std::int32_t>> known;
  for (const auto& entry : set.entries()) {
    check.need(entry.fd() >= 0 && entry.description() <= static_cast<std::uint32_t>(process.descriptions_size()) &&
                   !(entry.description() && entry.elsewhere()),
               [&] { return what + " watches an impossible descriptor"; });
    check.need(!entry.description() || has_number[entry.description() - 1],
               [&] { return what + " watches an open file that has no descriptor"; });
    check.need(!entry.description() || known.insert({entry.description(), entry.fd()}).second,
               [&] { return what + " watches descriptor " + std::to_string(entry.fd()) + " twice"; });
  }
}

void validate_description(const Checker& check, const Process& process, const Description& one,
                          const std::string& what) {
  check.need(one.kind() > Description::UNKNOWN && one.kind() <= Description::OTHER,
             [&] { return what + " is of an unknown kind"; });
  check.file(one.file(), what);
  check.need(one.owner_signal() >= 0 && one.owner_signal() <= 64, [&] { return what + " has an impossible signal"; });
  for (const auto& lock : one.locks())
    check.need(lock.type() <= 2 && lock.start() <= INT64_MAX && lock.length() <= INT64_MAX,
               [&] { return what + " has an impossible lock"; });
  check.need(one.pipe().capacity() <= kMaxPipe && one.pipe().content().size() <= one.pipe().capacity(),
             [&] { return what + " holds more than its pipe can"; });
  check.need(one.eventfd().count() != UINT64_MAX, [&] { return what + " has an impossible count"; });
  validate_epoll(check, process, one.epoll(), what);
  check.need(one.timerfd().value_ns() >= 0 && one.timerfd().interval_ns() >= 0,
             [&] { return what + " has an impossible time"; });
  for (const auto& watch : one.inotify().watches())
    check.need(watch.wd() > 0 && watch.path().size() < 4096 && watch.path().find('\0') == std::string::npos,
               [&] { return what + " has an impossible watch"; });
  check.need(
      one.terminal().termios().size() <= 256 && one.terminal().rows() <= 65535 && one.terminal().columns() <= 65535,
      [&] { return what + " has impossible terminal settings"; });
  validate_socket(check, one.socket(), what);
  check.need(one.shared_object() <= static_cast<std::uint32_t>(process.shared_objects_size()) &&
                 (one.kind() != Description::MEMFD || one.shared_object() > 0),
             [&] { return what + " refers to a shared object that is not there"; });
  // Only memfds and deleted files are opened through a shared object; any other file is opened by its path.
  const SharedObject* object =
      one.shared_object() == 0 ? nullptr : &process.shared_objects(static_cast<int>(one.shared_object()) - 1);
  check.need(!object ||
                 (one.kind() == Description::MEMFD &&
                  (object->kind() == SharedObject::MEMFD || object->kind() == SharedObject::KEPT)) ||
                 (one.kind() == Description::REGULAR && one.file().deleted() && object->has_deleted()),
             [&] { return what + " refers to a shared object of another kind"; });
}

/** Check that the two ends of a connection inside the process refer to each other. */
void validate_pairs(const Checker& check, const Process& process) {
  std::map<std::uint64_t, const Socket*> inside;
  for (const auto& one : process.descriptions())
    if (one.socket().inside())
      check.need(inside.emplace(one.socket().ino(), &one.socket()).second, "two sockets are the same one");
  for (const auto& [ino, socket] : inside) {
    if (socket->peer_ino() == 0) continue;
    const auto other = inside.find(socket->peer_ino());
    check.need(other != inside.end() && other->first != ino && other->second->peer_ino() == ino &&
                   other->second->type() == socket->type(),
               "the two ends of a connection do not know each other");
  }
}

}  // namespace

void validate_descriptors(const Checker& check, const Process& process) {
  // Messages name a descriptor, which users know, rather than the index of a description.
  std::vector<std::string> names(process.descriptions_size());
  std::set<std::int32_t> numbers;
  for (const auto& descriptor : process.descriptors()) {
    const std::string what = "descriptor " + std::to_string(descriptor.fd());
    check.need(descriptor.fd() >= 0 && numbers.insert(descriptor.fd()).second,
               [&] { return what + " is impossible or there twice"; });
    check.need(descriptor.description() < names.size(),
               [&] { return what + " refers to an open file that is not there"; });
    if (names[descriptor.description()].empty()) names[descriptor.description()] = what;
  }
  for (int i = 0; i < process.descriptions_size(); ++i)
    validate_description(check, process, process.descriptions(i),
                         names[i].empty() ? "open file " + std::to_string(i) : names[i]);
  validate_pairs(check, process);
}

}  // namespace reprise::image
