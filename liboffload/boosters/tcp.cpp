// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tcp.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/error.h"

namespace croff {
namespace {

std::string addresses() {
  std::string found;
  ifaddrs *all = nullptr;
  if (getifaddrs(&all) != 0) return "127.0.0.1";
  for (const ifaddrs *one = all; one; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || !(one->ifa_flags & IFF_UP) || (one->ifa_flags & IFF_LOOPBACK))
      continue;
    char text[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in *>(one->ifa_addr)->sin_addr, text, sizeof text);
    found += std::string(found.empty() ? "" : ",") + text;
  }
  freeifaddrs(all);
  return found.empty() ? "127.0.0.1" : found;
}

int connect_to_one(const std::string &address, int port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) return -1;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  pollfd wait{fd, POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof error;
  if (fd < 0) return -1;
  if (connect(fd, reinterpret_cast<sockaddr *>(&to), sizeof to) != 0) error = errno;
  if (error == EINPROGRESS) {
    const int ready = poll(&wait, 1, 3000);
    if (ready != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = ready == 0 ? ETIMEDOUT : errno;
  }
  if (!error) {
    prepare(fd);
    return fd;
  }
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

Entrance::Entrance(const std::string &what, int most_waiting) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  socklen_t size = sizeof any;
  if (socket_ < 0 || bind(socket_, reinterpret_cast<sockaddr *>(&any), sizeof any) != 0 || listen(socket_, most_waiting) != 0 ||
      getsockname(socket_, reinterpret_cast<sockaddr *>(&any), &size) != 0) {
    const int error = errno;
    shut();
    throw Error(Code::spawn, what + ": " + strerror(error) + ": permit this process TCP sockets");
  }
  where_ = addresses() + ":" + std::to_string(ntohs(any.sin_port));
}

void Entrance::shut() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

int connect_to(const std::string &where) {
  const auto colon = where.rfind(':');
  if (colon == std::string::npos) return -1;
  const int port = atoi(where.c_str() + colon + 1);
  std::istringstream all(where.substr(0, colon));
  int fd = -1;
  bool refused = false;
  for (std::string address; fd < 0 && std::getline(all, address, ',');) {
    fd = connect_to_one(address, port);
    refused |= fd < 0 && errno == ECONNREFUSED;
  }
  if (refused) errno = ECONNREFUSED;
  return fd;
}

void prepare(int socket) {
  const int on = 1, idle = 2, interval = 1, probes = 5;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

}  // namespace croff
