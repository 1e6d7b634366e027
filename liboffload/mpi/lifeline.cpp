// SPDX-License-Identifier: LGPL-2.1-or-later
#include "lifeline.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <thread>

#include "base/error.h"

namespace croff {
namespace {

std::atomic<bool> held{false};
int connection = -1;

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

int connect_to(const std::string &address, int port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) return -1;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  pollfd wait{fd, POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof error;
  if (connect(fd, reinterpret_cast<sockaddr *>(&to), sizeof to) != 0 &&
      (errno != EINPROGRESS || poll(&wait, 1, 3000) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error)) {
    close(fd);
    return -1;
  }
  // A node that is lost resets nothing.
  const int on = 1, idle = 2, interval = 1, probes = 5;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  return fd;
}

void watch() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pollfd wait{connection, POLLIN, 0};
  while (poll(&wait, 1, -1) < 0 && errno == EINTR) {
  }
  if (held) kill(getpid(), SIGKILL);
}

}  // namespace

Lifeline::Lifeline(int boosters) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  socklen_t size = sizeof any;
  if (socket_ < 0 || bind(socket_, reinterpret_cast<sockaddr *>(&any), sizeof any) != 0 || listen(socket_, boosters + 16) != 0 ||
      getsockname(socket_, reinterpret_cast<sockaddr *>(&any), &size) != 0)
    throw Error(Code::spawn, std::string("the lifeline of the boosters: ") + strerror(errno) + ": permit this process TCP sockets");
  where_ = addresses() + ":" + std::to_string(ntohs(any.sin_port));
}

void Lifeline::cut() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

bool hold_lifeline(const std::string &where) {
  const auto colon = where.rfind(':');
  if (colon == std::string::npos) return false;
  const int port = atoi(where.c_str() + colon + 1);
  std::istringstream all(where.substr(0, colon));
  for (std::string address; connection < 0 && std::getline(all, address, ',');) connection = connect_to(address, port);
  if (connection < 0) return false;
  held = true;
  std::thread(watch).detach();
  return true;
}

void let_go_of_lifeline() {
  held = false;
}

}  // namespace croff
