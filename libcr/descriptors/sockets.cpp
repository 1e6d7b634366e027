// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Saving sockets: addresses, and the options of those that can be made again.
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/proc_dir.h"
#include "descriptors/kinds.h"
#include "descriptors/socket_name.h"
#include "descriptors/unix_diag.h"
#include "restore/target_paths.h"

namespace reprise {
namespace {

constexpr int kTcpClose = 7;  // TCP_CLOSE in the kernel's tcp_states.h

int int_option(int fd, int level, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, level, name, &value, &size) == 0 ? value : 0;
}

template <class Ask>
std::string address(int fd, Ask ask) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof storage;
  if (ask(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return std::string(reinterpret_cast<const char*>(&storage), std::min<std::size_t>(size, sizeof storage));
}

bool is_tcp(const Socket& socket) {
  return (socket.family() == AF_INET || socket.family() == AF_INET6) && socket.type() == SOCK_STREAM &&
         (socket.protocol() == IPPROTO_TCP || socket.protocol() == 0);
}

void own_option(Socket& socket, int name, const void* value, std::size_t size) {
  auto* option = socket.add_options();
  option->set_level(kOwnLevel);
  option->set_name(name);
  option->set_value(value, size);
}

/** Has the peer closed the connection, with nothing left to read? */
bool is_dead(int fd) {
  pollfd state = {fd, POLLIN, 0};
  int unread = 0;
  return ::poll(&state, 1, 0) >= 0 && (state.revents & POLLHUP) && ::ioctl(fd, FIONREAD, &unread) == 0 && unread == 0;
}

std::uint32_t backlog_of(int fd, const Socket& socket) {
  constexpr std::uint32_t most = 4096;  // the kernel's own default limit
  if (is_tcp(socket)) {
    tcp_info info = {};
    socklen_t size = sizeof info;
    // For a listening socket tcpi_sacked is the backlog.
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) return info.tcpi_sacked;
  } else if (socket.family() == AF_UNIX) {
    if (const auto told = unix_diag(socket.ino())) return told->backlog;
  }
  return most;
}

bool unset_address(const Socket& socket) {
  const std::string& local = socket.local();
  if (socket.family() == AF_UNIX) return local.size() <= sizeof(sa_family_t);
  if (socket.family() == AF_INET || socket.family() == AF_INET6) {
    // The port has the same offset in both.
    std::uint16_t port = 0;
    if (local.size() >= 4) std::memcpy(&port, local.data() + 2, sizeof port);
    return port == 0 && socket.type() != SOCK_RAW;
  }
  if (socket.family() == AF_NETLINK) {
    sockaddr_nl netlink = {};
    std::memcpy(&netlink, local.data(), std::min(local.size(), sizeof netlink));
    return netlink.nl_pid == 0 && netlink.nl_groups == 0;
  }
  return local.empty();
}

}  // namespace

void collect_socket(Collector& collector, const cr_fd& fd, Description& description) {
  const UniqueFd ours = collector.source.get(fd.fd);
  const int s = ours.get();
  Socket& socket = *description.mutable_socket();
  socket.set_ino(fd.ino);
  socket.set_family(static_cast<std::uint32_t>(int_option(s, SOL_SOCKET, SO_DOMAIN)));
  socket.set_type(static_cast<std::uint32_t>(int_option(s, SOL_SOCKET, SO_TYPE)));
  socket.set_protocol(static_cast<std::uint32_t>(int_option(s, SOL_SOCKET, SO_PROTOCOL)));
  socket.set_listening(int_option(s, SOL_SOCKET, SO_ACCEPTCONN) != 0);
  socket.set_local(address(s, ::getsockname));
  if (unset_address(socket)) socket.clear_local();
  if (is_tcp(socket)) collect_ulp(s, socket);
  if (socket.listening()) {
    socket.set_backlog(backlog_of(s, socket));
  } else {
    socket.set_peer(address(s, ::getpeername));
    if (is_tcp(socket)) {
      tcp_info info = {};
      socklen_t size = sizeof info;
      const bool closed =
          ::getsockopt(s, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_state == kTcpClose;
      // A connection that is being set up or torn down counts as connected.
      if (!closed && socket.peer().empty()) socket.set_peer(std::string(sizeof(sa_family_t), '\0'));
    }
    const bool stream = socket.type() == SOCK_STREAM || socket.type() == SOCK_SEQPACKET;
    if (stream && !socket.peer().empty() && is_dead(s)) own_option(socket, kOwnDead, "", 0);
  }
  // Other sockets are kept or substituted: their options are never set.
  if (socket_remakeable(socket) && !socket_was_dead(socket)) save_socket_options(s, socket, collector.source.pid());
  const std::string path = socket_path(socket);
  if (path.empty()) return;
  // A relative path is relative to the working directory at bind(), most likely the current one.
  const ProcDir process(collector.source.pid());
  const UniqueFd at = path.front() == '/' ? TargetPaths(collector.source.pid()).open(path, O_PATH)
                                          : UniqueFd(::openat(process.fd(), ("cwd/" + path).c_str(), O_PATH | O_CLOEXEC));
  struct ::stat status;
  const bool known = at || errno == ENOENT || errno == ENOTDIR;
  if (!known) return;
  const bool there = at && ::fstat(at.get(), &status) == 0 && S_ISSOCK(status.st_mode);
  const auto told = unix_diag(fd.ino);
  socket.set_name_gone(!there || (told && told->path_ino && told->path_ino != static_cast<std::uint32_t>(status.st_ino)));
  if (socket.name_gone()) return;
  const std::uint32_t mode = status.st_mode & 07777;
  own_option(socket, kOwnPathMode, &mode, sizeof mode);
}

}  // namespace reprise
