// SPDX-License-Identifier: LGPL-2.1-or-later
#include "descriptors/socket_options.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/text.h"
#include "base/unique_fd.h"
#include "descriptors/socket_name.h"

namespace reprise {
namespace {

enum For : unsigned { any = 1, tcp = 2, ip = 4, ip6 = 8, unix_socket = 16, udp = 32 };

struct Known {
  int level, name;
  const char* text;
  unsigned which;
  bool before_bind;
};

constexpr Known kOptions[] = {
    {SOL_SOCKET, SO_REUSEADDR, "SO_REUSEADDR", any, true},
    {SOL_SOCKET, SO_REUSEPORT, "SO_REUSEPORT", any, true},
    {SOL_SOCKET, SO_BINDTODEVICE, "SO_BINDTODEVICE", ip | ip6, true},
    {IPPROTO_IPV6, IPV6_V6ONLY, "IPV6_V6ONLY", ip6, true},
    {IPPROTO_IP, IP_FREEBIND, "IP_FREEBIND", ip | ip6, true},
    {IPPROTO_IP, IP_TRANSPARENT, "IP_TRANSPARENT", ip | ip6, true},
    {SOL_SOCKET, SO_MARK, "SO_MARK", ip | ip6, true},
    {SOL_SOCKET, SO_KEEPALIVE, "SO_KEEPALIVE", any, false},
    {SOL_SOCKET, SO_BROADCAST, "SO_BROADCAST", any, false},
    {SOL_SOCKET, SO_DONTROUTE, "SO_DONTROUTE", ip | ip6, false},
    {SOL_SOCKET, SO_OOBINLINE, "SO_OOBINLINE", any, false},
    {SOL_SOCKET, SO_PRIORITY, "SO_PRIORITY", any, false},
    {SOL_SOCKET, SO_LINGER, "SO_LINGER", any, false},
    {SOL_SOCKET, SO_RCVTIMEO, "SO_RCVTIMEO", any, false},
    {SOL_SOCKET, SO_SNDTIMEO, "SO_SNDTIMEO", any, false},
    {SOL_SOCKET, SO_RCVLOWAT, "SO_RCVLOWAT", any, false},
    {SOL_SOCKET, SO_TIMESTAMP, "SO_TIMESTAMP", any, false},
    {SOL_SOCKET, SO_TIMESTAMPNS, "SO_TIMESTAMPNS", any, false},
    {SOL_SOCKET, SO_PASSCRED, "SO_PASSCRED", unix_socket, false},
    {SOL_SOCKET, SO_SNDBUF, "SO_SNDBUF", any, false},
    {SOL_SOCKET, SO_RCVBUF, "SO_RCVBUF", any, false},
    {IPPROTO_TCP, TCP_NODELAY, "TCP_NODELAY", tcp, false},
    {IPPROTO_TCP, TCP_MAXSEG, "TCP_MAXSEG", tcp, false},
    {IPPROTO_TCP, TCP_KEEPIDLE, "TCP_KEEPIDLE", tcp, false},
    {IPPROTO_TCP, TCP_KEEPINTVL, "TCP_KEEPINTVL", tcp, false},
    {IPPROTO_TCP, TCP_KEEPCNT, "TCP_KEEPCNT", tcp, false},
    {IPPROTO_TCP, TCP_DEFER_ACCEPT, "TCP_DEFER_ACCEPT", tcp, false},
    {IPPROTO_TCP, TCP_USER_TIMEOUT, "TCP_USER_TIMEOUT", tcp, false},
    {IPPROTO_TCP, TCP_FASTOPEN, "TCP_FASTOPEN", tcp, false},
    {IPPROTO_TCP, TCP_CONGESTION, "TCP_CONGESTION", tcp, false},
    {IPPROTO_TCP, TCP_QUICKACK, "TCP_QUICKACK", tcp, false},
    {IPPROTO_IP, IP_TOS, "IP_TOS", ip | ip6, false},
    {IPPROTO_IP, IP_TTL, "IP_TTL", ip | ip6, false},
    {IPPROTO_IP, IP_PKTINFO, "IP_PKTINFO", ip | ip6, false},
    {IPPROTO_IP, IP_RECVTTL, "IP_RECVTTL", ip | ip6, false},
    {IPPROTO_IP, IP_RECVTOS, "IP_RECVTOS", ip | ip6, false},
    {IPPROTO_IP, IP_RECVERR, "IP_RECVERR", ip | ip6, false},
    {IPPROTO_IP, IP_MTU_DISCOVER, "IP_MTU_DISCOVER", ip | ip6, false},
    {IPPROTO_IP, IP_MULTICAST_TTL, "IP_MULTICAST_TTL", ip, false},
    {IPPROTO_IP, IP_MULTICAST_LOOP, "IP_MULTICAST_LOOP", ip, false},
    {IPPROTO_IPV6, IPV6_RECVPKTINFO, "IPV6_RECVPKTINFO", ip6, false},
    {IPPROTO_IPV6, IPV6_RECVERR, "IPV6_RECVERR", ip6, false},
    {IPPROTO_IPV6, IPV6_TCLASS, "IPV6_TCLASS", ip6, false},
    {IPPROTO_IPV6, IPV6_UNICAST_HOPS, "IPV6_UNICAST_HOPS", ip6, false},
    {IPPROTO_UDP, UDP_SEGMENT, "UDP_SEGMENT", udp, false},
    {IPPROTO_UDP, UDP_GRO, "UDP_GRO", udp, false},
};

unsigned sorts(const Socket& socket) {
  unsigned which = any;
  if (socket.family() == AF_UNIX) which |= unix_socket;
  if (socket.family() == AF_INET) which |= ip;
  if (socket.family() == AF_INET6) which |= ip6;
  if (which & (ip | ip6)) {
    if (socket.type() == SOCK_STREAM) which |= tcp;
    if (socket.type() == SOCK_DGRAM) which |= udp;
  }
  return which;
}

bool get(int fd, const Known& option, std::string& value) {
  char bytes[256];
  socklen_t size = sizeof bytes;
  if (::getsockopt(fd, option.level, option.name, bytes, &size) != 0) return false;
  value.assign(bytes, size);
  return true;
}

}  // namespace

void save_socket_options(int fd, Socket& socket) {
  const UniqueFd fresh(::socket(static_cast<int>(socket.family()), static_cast<int>(socket.type()) | SOCK_CLOEXEC,
                                static_cast<int>(socket.protocol())));
  if (!fresh) return;
  const unsigned which = sorts(socket);
  for (const Known& option : kOptions) {
    std::string value, normal;
    if (!(option.which & which) || !get(fd, option, value)) continue;
    if (get(fresh.get(), option, normal) && normal == value) continue;
    auto* saved = socket.add_options();
    saved->set_level(option.level);
    saved->set_name(option.name);
    saved->set_value(value);
  }
}

std::string set_socket_options(int fd, const Socket& socket, bool before_bind) {
  std::string failed;
  for (const Known& option : kOptions) {
    if (option.before_bind != before_bind) continue;
    const auto* saved = find_option(socket, option.level, option.name);
    if (!saved) continue;
    std::string value = saved->value();
    int name = option.name;
    if (option.level == SOL_SOCKET && (name == SO_SNDBUF || name == SO_RCVBUF) && value.size() == sizeof(int)) {
      // The kernel doubles what it is given; with the right to, beyond the system's limit.
      int size;
      std::memcpy(&size, value.data(), sizeof size);
      size /= 2;
      value.assign(reinterpret_cast<const char*>(&size), sizeof size);
      const int force = name == SO_SNDBUF ? SO_SNDBUFFORCE : SO_RCVBUFFORCE;
      if (::setsockopt(fd, SOL_SOCKET, force, value.data(), static_cast<socklen_t>(value.size())) == 0) continue;
    }
    if (::setsockopt(fd, option.level, name, value.data(), static_cast<socklen_t>(value.size())) == 0) continue;
    if (!failed.empty()) failed += ", ";
    failed += std::string(option.text) + " (" + error_text(errno) + ")";
  }
  return failed;
}

}  // namespace reprise
