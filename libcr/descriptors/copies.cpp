// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Which open files several processes, restored from one image, can have at once. Each opens or makes its own, so most can.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <set>
#include <string>

#include "descriptors/choose_method.h"
#include "descriptors/descriptors.h"
#include "descriptors/socket_name.h"

namespace reprise {
namespace {

/** May several sockets be bound to one address, because they all have SO_REUSEPORT? */
bool shares_port(const Socket& socket) {
  if (socket.family() != AF_INET && socket.family() != AF_INET6) return false;
  const auto* option = find_option(socket, SOL_SOCKET, SO_REUSEPORT);
  return option && std::any_of(option->value().begin(), option->value().end(), [](char byte) { return byte != 0; });
}

/** Is its address one that the socket has to itself? Not groups of netlink alone, and not the protocol of raw sockets. */
bool has_own_address(const Socket& socket) {
  if (socket.local().empty() || socket.inside() || socket_was_dead(socket)) return false;
  if (socket.family() == AF_NETLINK) return netlink_port(socket.local()) != 0;
  return socket.type() != SOCK_RAW && socket.family() != AF_PACKET && !shares_port(socket);
}

/** Is the file made again for each process, since it has no name? */
bool is_own_file(const Description& description) {
  return description.file().deleted() || description.shared_object() != 0 || description.kind() == Description::MEMFD;
}

/** @return why only one process can have it, "" if several can */
std::string problem(const Description& description) {
  if (description.kind() == Description::SOCKET && has_own_address(description.socket()))
    return "only one process can have its address";
  if (description.kind() == Description::FIFO && !description.file().deleted() && !description.pipe().outside())
    return "the process held both ends of it, and the copies would read what another one writes";
  const auto exclusive = [](const Lock& lock) { return lock.type() == F_WRLCK; };
  if (!is_own_file(description) && std::any_of(description.locks().begin(), description.locks().end(), exclusive))
    return "only one process can have the exclusive lock that it had on it";
  return {};
}

/** Do the copies overwrite what another one has written? Each has an offset of its own. */
bool is_overwritten(const Description& description) {
  return description.kind() == Description::REGULAR && !is_own_file(description) &&
         (description.flags() & O_ACCMODE) != O_RDONLY && !(description.flags() & (O_APPEND | O_PATH));
}

}  // namespace

void check_copies(const Process& image, const RestoreOptions& options, Report& report) {
  const std::vector<Decision> decisions = choose_method(image, options, RestoreMode::restart, {});
  Refusals refusals;
  std::set<std::string> shared;
  for (std::uint32_t index = 0; index < decisions.size(); ++index) {
    if (decisions[index].way != Way::make) continue;
    const Description& description = image.descriptions(static_cast<int>(index));
    const bool socket = description.kind() == Description::SOCKET;
    // With --dead-sockets the copies that find the address in use do without it.
    if (const std::string why = problem(description); !why.empty() && !(socket && options.dead_sockets))
      refusals.add(description_text(image, index) + ": " + why, true, socket);
    if (is_overwritten(description)) shared.insert(description.file().path());
  }
  refusals.raise("several copies of the process cannot have these");
  for (const Mapping& mapping : image.mappings()) {
    const std::uint32_t number = mapping.shared_object();
    if (!number || (mapping.flags() & (CR_VMA_SHARED | CR_VMA_MAYWRITE)) != (CR_VMA_SHARED | CR_VMA_MAYWRITE)) continue;
    const SharedObject& object = image.shared_objects(static_cast<int>(number) - 1);
    if (object.kind() == SharedObject::FILE && !object.has_deleted() && !object.file().deleted())
      shared.insert(object.file().path());
  }
  for (const std::string& path : shared)
    report.warnings.push_back("the copies write to the same file " + path + ", and overwrite each other's data");
}

}  // namespace reprise
