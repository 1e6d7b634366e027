// SPDX-License-Identifier: LGPL-2.1-or-later
#include "descriptors/socket_options.h"

#include <linux/filter.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/text.h"
#include "base/unique_fd.h"
#include "descriptors/multicast.h"
#include "descriptors/socket_name.h"

namespace reprise {
namespace {

// Not in every C library's headers.
constexpr int kSoPassPidfd = 76, kSoPassRights = 83, kSoRcvMark = 75, kSoRcvPriority = 82, kSoTxRehash = 74,
              kSoReserveMem = 73, kSoBufLock = 72;
constexpr int kIpLocalPortRange = 51, kTcpRtoMax = 44, kUdpNoCheck6Tx = 101, kUdpNoCheck6Rx = 102;

enum For : unsigned { any = 1, tcp = 2, ip = 4, ip6 = 8, unix_socket = 16, udp = 32, netlink = 64, raw = 128 };
enum When : unsigned { before_bind, afterwards };
/** What to do if the option cannot be set. */
enum Weight : unsigned { report, refuse };  // refuse: without it the socket could receive or send wrong data

struct Known {
  int level, name;
  const char* text;
  unsigned which;
  When when = afterwards;
  Weight weight = report;
};

#define NAMED(name) name, #name

/** Every option that can be read, in the order in which they are set. get() and set() treat some of them specially. */
constexpr Known kOptions[] = {
    {SOL_SOCKET, NAMED(SO_REUSEADDR), any, before_bind},
    {SOL_SOCKET, NAMED(SO_REUSEPORT), any, before_bind},
    {SOL_SOCKET, NAMED(SO_BINDTODEVICE), ip | ip6, before_bind, refuse},
    {SOL_SOCKET, NAMED(SO_MARK), any, before_bind, refuse},
    {SOL_SOCKET, NAMED(SO_ATTACH_FILTER), any, before_bind, refuse},
    {IPPROTO_IPV6, NAMED(IPV6_V6ONLY), ip6, before_bind},
    {IPPROTO_IP, NAMED(IP_FREEBIND), ip | ip6, before_bind},
    {IPPROTO_IP, NAMED(IP_TRANSPARENT), ip | ip6, before_bind},
    {IPPROTO_IP, NAMED(IP_BIND_ADDRESS_NO_PORT), ip | ip6, before_bind},
    {IPPROTO_IP, kIpLocalPortRange, "IP_LOCAL_PORT_RANGE", ip | ip6, before_bind},
    {IPPROTO_IP, NAMED(IP_HDRINCL), raw, before_bind},
    {IPPROTO_IPV6, NAMED(IPV6_HDRINCL), raw, before_bind},
    {IPPROTO_IPV6, NAMED(IPV6_CHECKSUM), raw, before_bind},

    {SOL_SOCKET, NAMED(SO_DEBUG), any},
    {SOL_SOCKET, NAMED(SO_KEEPALIVE), any},
    {SOL_SOCKET, NAMED(SO_BROADCAST), any},
    {SOL_SOCKET, NAMED(SO_DONTROUTE), ip | ip6},
    {SOL_SOCKET, NAMED(SO_OOBINLINE), any},
    {SOL_SOCKET, NAMED(SO_NO_CHECK), any},
    {SOL_SOCKET, NAMED(SO_PRIORITY), any},
    {SOL_SOCKET, NAMED(SO_LINGER), any},
    {SOL_SOCKET, NAMED(SO_RCVTIMEO), any},
    {SOL_SOCKET, NAMED(SO_SNDTIMEO), any},
    {SOL_SOCKET, NAMED(SO_RCVLOWAT), any},
    {SOL_SOCKET, NAMED(SO_TIMESTAMP_OLD), any},
    {SOL_SOCKET, NAMED(SO_TIMESTAMPNS_OLD), any},
    {SOL_SOCKET, NAMED(SO_TIMESTAMPING_OLD), any},
    {SOL_SOCKET, NAMED(SO_TIMESTAMP_NEW), any},
    {SOL_SOCKET, NAMED(SO_TIMESTAMPNS_NEW), any},
    {SOL_SOCKET, NAMED(SO_TIMESTAMPING_NEW), any},
    {SOL_SOCKET, NAMED(SO_PASSCRED), any},
    {SOL_SOCKET, NAMED(SO_PASSSEC), any},
    {SOL_SOCKET, kSoPassPidfd, "SO_PASSPIDFD", any},
    {SOL_SOCKET, kSoPassRights, "SO_PASSRIGHTS", unix_socket},
    {SOL_SOCKET, NAMED(SO_BUSY_POLL), any},
    {SOL_SOCKET, NAMED(SO_PREFER_BUSY_POLL), any},
    {SOL_SOCKET, NAMED(SO_BUSY_POLL_BUDGET), any},
    {SOL_SOCKET, NAMED(SO_INCOMING_CPU), ip | ip6},
    {SOL_SOCKET, NAMED(SO_ZEROCOPY), any},
    {SOL_SOCKET, NAMED(SO_TXTIME), any},
    {SOL_SOCKET, NAMED(SO_PEEK_OFF), any},
    {SOL_SOCKET, NAMED(SO_NOFCS), any},
    {SOL_SOCKET, NAMED(SO_SELECT_ERR_QUEUE), any},
    {SOL_SOCKET, NAMED(SO_MAX_PACING_RATE), any},
    {SOL_SOCKET, NAMED(SO_RXQ_OVFL), any},
    {SOL_SOCKET, NAMED(SO_WIFI_STATUS), any},
    {SOL_SOCKET, kSoRcvMark, "SO_RCVMARK", any},
    {SOL_SOCKET, kSoRcvPriority, "SO_RCVPRIORITY", any},
    {SOL_SOCKET, kSoTxRehash, "SO_TXREHASH", ip | ip6},
    {SOL_SOCKET, kSoReserveMem, "SO_RESERVE_MEM", ip | ip6},
    {SOL_SOCKET, NAMED(SO_SNDBUF), any},
    {SOL_SOCKET, NAMED(SO_RCVBUF), any},
    {SOL_SOCKET, kSoBufLock, "SO_BUF_LOCK", any},  // after the two, which change it

    {IPPROTO_TCP, NAMED(TCP_NODELAY), tcp},
    {IPPROTO_TCP, NAMED(TCP_CORK), tcp},
    {IPPROTO_TCP, NAMED(TCP_MAXSEG), tcp},
    {IPPROTO_TCP, NAMED(TCP_KEEPIDLE), tcp},
    {IPPROTO_TCP, NAMED(TCP_KEEPINTVL), tcp},
    {IPPROTO_TCP, NAMED(TCP_KEEPCNT), tcp},
    {IPPROTO_TCP, NAMED(TCP_SYNCNT), tcp},
    {IPPROTO_TCP, NAMED(TCP_LINGER2), tcp},
    {IPPROTO_TCP, NAMED(TCP_DEFER_ACCEPT), tcp},
    {IPPROTO_TCP, NAMED(TCP_WINDOW_CLAMP), tcp},
    {IPPROTO_TCP, NAMED(TCP_USER_TIMEOUT), tcp},
    {IPPROTO_TCP, NAMED(TCP_FASTOPEN), tcp},
    {IPPROTO_TCP, NAMED(TCP_FASTOPEN_KEY), tcp},
    {IPPROTO_TCP, NAMED(TCP_FASTOPEN_CONNECT), tcp},
    {IPPROTO_TCP, NAMED(TCP_FASTOPEN_NO_COOKIE), tcp},
    {IPPROTO_TCP, NAMED(TCP_CONGESTION), tcp},
    {IPPROTO_TCP, NAMED(TCP_QUICKACK), tcp},
    {IPPROTO_TCP, NAMED(TCP_THIN_LINEAR_TIMEOUTS), tcp},
    {IPPROTO_TCP, NAMED(TCP_NOTSENT_LOWAT), tcp},
    {IPPROTO_TCP, NAMED(TCP_SAVE_SYN), tcp},
    {IPPROTO_TCP, NAMED(TCP_INQ), tcp},
    {IPPROTO_TCP, NAMED(TCP_TX_DELAY), tcp},
    {IPPROTO_TCP, kTcpRtoMax, "TCP_RTO_MAX_MS", tcp},

    {IPPROTO_IP, NAMED(IP_OPTIONS), ip},
    {IPPROTO_IP, NAMED(IP_TOS), ip | ip6},
    {IPPROTO_IP, NAMED(IP_TTL), ip | ip6},
    {IPPROTO_IP, NAMED(IP_MINTTL), ip | ip6},
    {IPPROTO_IP, NAMED(IP_PKTINFO), ip | ip6},
    {IPPROTO_IP, NAMED(IP_RECVTTL), ip | ip6},
    {IPPROTO_IP, NAMED(IP_RECVTOS), ip | ip6},
    {IPPROTO_IP, NAMED(IP_RECVOPTS), ip | ip6},
    {IPPROTO_IP, NAMED(IP_RETOPTS), ip | ip6},
    {IPPROTO_IP, NAMED(IP_RECVERR), ip | ip6},
    {IPPROTO_IP, NAMED(IP_RECVERR_RFC4884), ip | ip6},
    {IPPROTO_IP, NAMED(IP_RECVORIGDSTADDR), ip | ip6},
    {IPPROTO_IP, NAMED(IP_RECVFRAGSIZE), ip | ip6},
    {IPPROTO_IP, NAMED(IP_CHECKSUM), ip | ip6},
    {IPPROTO_IP, NAMED(IP_PASSSEC), ip | ip6},
    {IPPROTO_IP, NAMED(IP_NODEFRAG), raw},
    {IPPROTO_IP, NAMED(IP_MTU_DISCOVER), ip | ip6},
    {IPPROTO_IP, NAMED(IP_UNICAST_IF), ip},
    {IPPROTO_IP, NAMED(IP_MULTICAST_IF), ip},
    {IPPROTO_IP, NAMED(IP_MULTICAST_TTL), ip},
    {IPPROTO_IP, NAMED(IP_MULTICAST_LOOP), ip},
    {IPPROTO_IP, NAMED(IP_MULTICAST_ALL), ip},

    {IPPROTO_IPV6, NAMED(IPV6_TCLASS), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_UNICAST_HOPS), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_MINHOPCOUNT), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_RECVPKTINFO), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_RECVHOPLIMIT), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_RECVRTHDR), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_RECVHOPOPTS), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_RECVDSTOPTS), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_RECVTCLASS), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_RECVPATHMTU), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_RECVERR), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_RECVERR_RFC4884), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_RECVORIGDSTADDR), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_RECVFRAGSIZE), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_MTU_DISCOVER), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_DONTFRAG), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_AUTOFLOWLABEL), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_ADDR_PREFERENCES), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_UNICAST_IF), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_MULTICAST_IF), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_MULTICAST_HOPS), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_MULTICAST_LOOP), ip6},
    {IPPROTO_IPV6, NAMED(IPV6_MULTICAST_ALL), ip6},

    {IPPROTO_UDP, NAMED(UDP_CORK), udp},
    {IPPROTO_UDP, NAMED(UDP_ENCAP), udp},
    {IPPROTO_UDP, kUdpNoCheck6Tx, "UDP_NO_CHECK6_TX", udp},
    {IPPROTO_UDP, kUdpNoCheck6Rx, "UDP_NO_CHECK6_RX", udp},
    {IPPROTO_UDP, NAMED(UDP_SEGMENT), udp},
    {IPPROTO_UDP, NAMED(UDP_GRO), udp},

    {SOL_NETLINK, NAMED(NETLINK_PKTINFO), netlink},
    {SOL_NETLINK, NAMED(NETLINK_BROADCAST_ERROR), netlink},
    {SOL_NETLINK, NAMED(NETLINK_NO_ENOBUFS), netlink},
    {SOL_NETLINK, NAMED(NETLINK_LISTEN_ALL_NSID), netlink},
    {SOL_NETLINK, NAMED(NETLINK_CAP_ACK), netlink},
    {SOL_NETLINK, NAMED(NETLINK_EXT_ACK), netlink},
    {SOL_NETLINK, NAMED(NETLINK_GET_STRICT_CHK), netlink},
    {SOL_NETLINK, NAMED(NETLINK_LIST_MEMBERSHIPS), netlink},

    {SOL_SOCKET, NAMED(SO_LOCK_FILTER), any, afterwards, refuse},  // last
};

#undef NAMED

unsigned sorts(const Socket& socket) {
  unsigned which = any;
  if (socket.family() == AF_UNIX) which |= unix_socket;
  if (socket.family() == AF_NETLINK) which |= netlink;
  if (socket.family() == AF_INET) which |= ip;
  if (socket.family() == AF_INET6) which |= ip6;
  if (which & (ip | ip6)) {
    if (socket.type() == SOCK_STREAM) which |= tcp;
    if (socket.type() == SOCK_DGRAM) which |= udp;
    if (socket.type() == SOCK_RAW) which |= raw;
  }
  return which;
}

/** Read the socket's classic BPF filter. SO_GET_FILTER counts instructions, not bytes. */
bool get_filter(int fd, std::string& value) {
  socklen_t count = 0;
  if (::getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, nullptr, &count) != 0) return false;
  std::vector<sock_filter> code(count);
  if (count && ::getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, code.data(), &count) != 0) return false;
  value.assign(reinterpret_cast<const char*>(code.data()), code.size() * sizeof code[0]);
  return true;
}

bool get(int fd, const Known& option, std::string& value) {
  if (option.level == SOL_SOCKET && option.name == SO_GET_FILTER) return get_filter(fd, value);
  char bytes[256];
  socklen_t size = sizeof bytes;
  if (::getsockopt(fd, option.level, option.name, bytes, &size) != 0 || size > sizeof bytes) return false;
  value.assign(bytes, size);
  return true;
}

bool set_bytes(int fd, int level, int name, const std::string& value) {
  return ::setsockopt(fd, level, name, value.data(), static_cast<socklen_t>(value.size())) == 0;
}

/** The kernel doubles the value. SO_*BUFFORCE exceeds the system's limit, with CAP_NET_ADMIN. */
bool set_buffer(int fd, int name, const std::string& value) {
  int size;
  if (value.size() != sizeof size) return errno = EINVAL, false;
  std::memcpy(&size, value.data(), sizeof size);
  size /= 2;
  const int force = name == SO_SNDBUF ? SO_SNDBUFFORCE : SO_RCVBUFFORCE;
  return ::setsockopt(fd, SOL_SOCKET, force, &size, sizeof size) == 0 ||
         ::setsockopt(fd, SOL_SOCKET, name, &size, sizeof size) == 0;
}

bool set_filter(int fd, const std::string& value) {
  std::vector<sock_filter> code(value.size() / sizeof(sock_filter));
  if (code.empty() || code.size() > BPF_MAXINSNS) return errno = EINVAL, false;
  std::memcpy(code.data(), value.data(), code.size() * sizeof code[0]);
  const sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
  return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

/** Join the groups in a bit set in which group N is bit N - 1. */
bool set_memberships(int fd, const std::string& groups) {
  bool good = true;
  for (unsigned i = 0; i < groups.size() * 8; ++i) {
    if (!(static_cast<unsigned char>(groups[i / 8]) >> (i % 8) & 1)) continue;
    const unsigned group = i + 1;
    good = ::setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) == 0 && good;
  }
  return good;
}

bool set(int fd, const Known& option, const std::string& value) {
  if (option.level == SOL_SOCKET && (option.name == SO_SNDBUF || option.name == SO_RCVBUF))
    return set_buffer(fd, option.name, value);
  if (option.level == SOL_SOCKET && option.name == SO_ATTACH_FILTER) return set_filter(fd, value);
  if (option.level == SOL_NETLINK && option.name == NETLINK_LIST_MEMBERSHIPS) return set_memberships(fd, value);
  return set_bytes(fd, option.level, option.name, value);
}

void add(std::string& list, const std::string& one) { list += (list.empty() ? "" : ", ") + one; }

}  // namespace

void save_socket_options(int fd, Socket& socket, pid_t pid) {
  const UniqueFd fresh(::socket(static_cast<int>(socket.family()), static_cast<int>(socket.type()) | SOCK_CLOEXEC,
                                static_cast<int>(socket.protocol())));
  if (!fresh) return;
  const unsigned which = sorts(socket);
  const auto save = [&](int level, int name, const std::string& value) {
    auto* saved = socket.add_options();
    saved->set_level(level);
    saved->set_name(name);
    saved->set_value(value);
  };
  for (const Known& option : kOptions) {
    std::string value, normal;
    if (!(option.which & which)) continue;
    errno = 0;
    if (!get(fd, option, value)) {
      // EACCES: the filter is an eBPF program, which SO_GET_FILTER does not return.
      if (option.name == SO_GET_FILTER && option.level == SOL_SOCKET && errno == EACCES) save(kOwnLevel, kOwnProgram, "");
      continue;
    }
    if (get(fresh.get(), option, normal) && normal == value) continue;
    save(option.level, option.name, value);
  }
  for (const std::string& membership : multicast_memberships(fd, socket, pid)) save(kOwnLevel, kOwnMulticast, membership);
}

SetOptions set_socket_options(int fd, const Socket& socket, SetWhen when) {
  SetOptions done;
  for (const Known& option : kOptions) {
    const bool now = when == SetWhen::trial ? option.weight == refuse
                                            : (option.when == before_bind) == (when == SetWhen::before_bind);
    const auto* saved = now ? find_option(socket, option.level, option.name) : nullptr;
    if (!saved || set(fd, option, saved->value())) continue;
    add(option.weight == refuse ? done.refused : done.failed, std::string(option.text) + " (" + error_text(errno) + ")");
  }
  if (when != SetWhen::afterwards) return done;
  for (const auto& option : socket.options())
    if (option.level() == kOwnLevel && option.name() == kOwnMulticast)
      if (const std::string why = join_multicast(fd, option.value()); !why.empty()) add(done.failed, why);
  return done;
}

}  // namespace reprise
