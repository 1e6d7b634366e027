// SPDX-License-Identifier: GPL-2.0-only
#include "crd/images/connect.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include "job/endpoints.h"
#include "job/log.h"

namespace reprise::crd {
namespace {

using Clock = std::chrono::steady_clock;

/** A node has this many addresses at most: others are not tried. */
constexpr std::size_t kMost = 16;
constexpr int kLookMs = 100;

/** @return a socket that is connecting, or is connected; none: that address cannot be used */
UniqueFd begin(const std::string& endpoint) {
  const auto [host, port] = job::split_endpoint(endpoint);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return UniqueFd();
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const bool good = fd && (::connect(fd.get(), found->ai_addr, found->ai_addrlen) == 0 || errno == EINPROGRESS);
  ::freeaddrinfo(found);
  return good ? std::move(fd) : UniqueFd();
}

bool connected(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
}

}  // namespace

void connect_to_any(const std::vector<std::string>& endpoints, const Patience& patience, const std::function<bool(UniqueFd)>& use) {
  const auto end = Clock::now() + patience.silence;
  std::vector<UniqueFd> sockets;
  for (std::size_t i = 0; i < std::min(endpoints.size(), kMost); ++i)
    if (UniqueFd fd = begin(endpoints[i])) sockets.push_back(std::move(fd));
  while (!sockets.empty() && Clock::now() < end) {
    if (patience.keep_on && !patience.keep_on()) throw std::system_error(ECANCELED, std::generic_category(), "a connection to another daemon");
    std::vector<pollfd> items;
    for (const UniqueFd& fd : sockets) items.push_back({fd.get(), POLLOUT, 0});
    if (::poll(items.data(), items.size(), kLookMs) <= 0) continue;
    for (std::size_t i = items.size(); i-- > 0;) {
      if (!items[i].revents) continue;
      UniqueFd fd = std::move(sockets[i]);
      sockets.erase(sockets.begin() + static_cast<std::ptrdiff_t>(i));
      if (connected(fd.get()) && use(std::move(fd))) return;
    }
  }
  throw Broken("no connection can be made");
}

}  // namespace reprise::crd
