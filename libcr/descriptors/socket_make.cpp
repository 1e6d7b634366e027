// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Making sockets: listening, unconnected, and dead ones (other end closed).
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/proc_dir.h"
#include "base/text.h"
#include "descriptors/kinds.h"
#include "descriptors/socket_name.h"
#include "descriptors/socket_options.h"

namespace reprise {
namespace {

const sockaddr* as_address(const std::string& bytes) { return reinterpret_cast<const sockaddr*>(bytes.data()); }

/** @return 0 or errno */
int bind_to(int fd, const std::string& address) {
  return ::bind(fd, as_address(address), static_cast<socklen_t>(address.size())) == 0 ? 0 : errno;
}

/** Bind a Unix socket to its path; replace a socket that is there. @return 0 or errno */
int bind_to_path(int fd, const Socket& socket, const std::string& address, const std::string& path,
                 const std::string& directory) {
  int result = 0;
  // The path may be relative, and bind() obeys the umask: use a thread with its own fs_struct (CLONE_FS).
  std::thread([&] {
    if (::unshare(CLONE_FS) != 0 || (path.front() != '/' && ::chdir(directory.c_str()) != 0)) {
      result = errno;
      return;
    }
    struct ::stat there;
    if (::lstat(path.c_str(), &there) == 0) {
      // If its own name had been removed, a socket that is there belongs to another program.
      if (!S_ISSOCK(there.st_mode) || socket.name_gone()) {
        result = EEXIST;
        return;
      }
      if (::unlink(path.c_str()) != 0) {
        result = errno;
        return;
      }
    }
    std::uint32_t mode = 0777 & ~022;
    if (const auto* saved = find_option(socket, kOwnLevel, kOwnPathMode); saved && saved->value().size() == sizeof mode)
      std::memcpy(&mode, saved->value().data(), sizeof mode);
    ::umask(static_cast<mode_t>(~mode & 0777));
    result = bind_to(fd, address);
    if (result == 0 && socket.name_gone() && ::unlink(path.c_str()) != 0) result = errno;
  }).join();
  return result;
}

/** Throw Error (refused) for a pause in another network namespace: a socket belongs to that of the thread making it. */
void need_same_network(const Restorer& restorer, std::uint32_t index) {
  if (restorer.mode == RestoreMode::restart || ProcDir(restorer.source.pid()).link("ns/net") == ProcDir(::getpid()).link("ns/net"))
    return;
  throw Error(Failure::refused, EXDEV,
              description_text(restorer.image, index) +
                  ": was closed since the checkpoint, and the process is in another network namespace: "
                  "run cr_pause in it (nsenter --net --target " + std::to_string(restorer.source.pid()) + ")");
}

}  // namespace

std::string socket_address(const Restorer& restorer, const Socket& socket) {
  const std::string path = socket_path(socket);
  if (path.empty() || restorer.mode != RestoreMode::restart) return socket.local();
  const std::string moved = restorer.options.relocated(path);
  if (moved == path) return socket.local();
  return socket.local().substr(0, offsetof(sockaddr_un, sun_path)) + moved + '\0';
}

void set_options(Restorer& restorer, std::uint32_t index, int fd, SetWhen when) {
  const SetOptions done = set_socket_options(fd, restorer.description(index).socket(), when);
  if (!done.refused.empty())
    throw Error(Failure::refused, 0,
                description_text(restorer.image, index) + ": it cannot be made without " + done.refused);
  if (!done.failed.empty()) restorer.warn(index, "cannot be set: " + done.failed);
}

std::string options_problem(const Restorer& restorer, std::uint32_t index) {
  const Socket& socket = restorer.description(index).socket();
  if (socket_was_dead(socket)) return {};
  const OnBehalf::Rights rights(restorer.behalf);
  const UniqueFd fd(::socket(static_cast<int>(socket.family()), static_cast<int>(socket.type()) | SOCK_CLOEXEC,
                             static_cast<int>(socket.protocol())));
  if (!fd) return "cannot be made: " + error_text(errno);
  const std::string refused = set_socket_options(fd.get(), socket, SetWhen::trial).refused;
  return refused.empty() ? "" : "it cannot be made without " + refused;
}

int bind_socket(Restorer& restorer, int fd, const Socket& socket) {
  const std::string address = socket_address(restorer, socket);
  const std::string path = unix_path(address);
  if (path.empty()) return bind_to(fd, address);
  return bind_to_path(fd, socket, address, path, restorer.image.env().cwd().path());
}

void make_socket(Restorer& restorer, std::uint32_t index) {
  const Description& description = restorer.description(index);
  const Socket& socket = description.socket();
  if (socket.inside()) {
    make_unix_pair(restorer, index);
    return;
  }
  if (socket_was_dead(socket)) {
    restorer.made[index] = dead_socket(restorer, index);
    return;
  }
  need_same_network(restorer, index);
  const OnBehalf::Rights rights(restorer.behalf);
  const int nonblock = (open_flags(description) & O_NONBLOCK) ? SOCK_NONBLOCK : 0;
  UniqueFd fd(::socket(static_cast<int>(socket.family()), static_cast<int>(socket.type()) | SOCK_CLOEXEC | nonblock,
                       static_cast<int>(socket.protocol())));
  if (!fd) restorer.fail(index, "cannot be made", errno);
  set_options(restorer, index, fd.get(), SetWhen::before_bind);
  if (!socket.local().empty()) {
    const int code = bind_socket(restorer, fd.get(), socket);
    if ((code == EADDRINUSE || code == EADDRNOTAVAIL) && restorer.options.dead_sockets) {
      restorer.warn(index, "cannot be bound: " + error_text(code) + ": given back dead");
      restorer.decisions[index].way = Way::dead;
      restorer.made[index] = dead_socket(restorer, index);
      return;
    }
    if (code == EADDRINUSE)
      restorer.fail(index, "its address is in use (does the old process still run? --dead-sockets does without it)", code);
    if (code != 0) restorer.fail(index, "cannot be bound", code);
  }
  if (!socket.peer().empty() &&
      ::connect(fd.get(), as_address(socket.peer()), static_cast<socklen_t>(socket.peer().size())) != 0)
    restorer.fail(index, "cannot be connected", errno);
  set_options(restorer, index, fd.get(), SetWhen::afterwards);
  restorer.made[index] = std::move(fd);
}

void restore_socket_state(Restorer& restorer, std::uint32_t index) {
  const auto made = restorer.made.find(index);
  const Socket& socket = restorer.description(index).socket();
  if (socket.inside()) {
    restore_unix_pair_state(restorer, index);
    return;
  }
  // Open sockets stay as they are. A new one listens only now, when no later step can fail.
  if (made == restorer.made.end() || !socket.listening()) return;
  if (::listen(made->second.get(), static_cast<int>(socket.backlog())) != 0)
    restorer.fail(index, "cannot listen", errno);
}

UniqueFd dead_socket(Restorer& restorer, std::uint32_t index) {
  const Description& description = restorer.description(index);
  const Socket& socket = description.socket();
  const int type = static_cast<int>(socket.type()) | SOCK_CLOEXEC |
                   ((open_flags(description) & O_NONBLOCK) ? SOCK_NONBLOCK : 0);
  const bool stream = socket.type() == SOCK_STREAM || socket.type() == SOCK_SEQPACKET;
  if (socket.family() == AF_UNIX && stream) {
    int ends[2];
    if (::socketpair(AF_UNIX, type, 0, ends) != 0) restorer.fail(index, "cannot be made", errno);
    ::close(ends[1]);
    return UniqueFd(ends[0]);
  }
  UniqueFd fd(::socket(static_cast<int>(socket.family()), type, static_cast<int>(socket.protocol())));
  // This kernel lacks the family: any dead socket will do.
  if (!fd) fd.reset(::socket(AF_INET, SOCK_STREAM | (type & ~0xf), 0));
  if (!fd) restorer.fail(index, "cannot be made", errno);
  // Returns ENOTCONN, but then reads return end of file and writes fail with EPIPE.
  ::shutdown(fd.get(), SHUT_RDWR);
  return fd;
}

}  // namespace reprise
