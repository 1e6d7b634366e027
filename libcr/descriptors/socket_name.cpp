// SPDX-License-Identifier: LGPL-2.1-or-later
#include "descriptors/socket_name.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace reprise {
namespace {

template <class T>
T as(const std::string& bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

std::string family_name(const Socket& socket) {
  switch (socket.family()) {
    case AF_INET:
    case AF_INET6:
      if (socket.type() == SOCK_STREAM) return socket.protocol() == IPPROTO_SCTP ? "SCTP" : "TCP";
      if (socket.type() == SOCK_DGRAM) return socket.protocol() == IPPROTO_ICMP ? "ICMP" : "UDP";
      return "raw IP";
    case AF_UNIX: return "Unix";
    case AF_NETLINK: return "netlink";
    case AF_PACKET: return "packet";
    case AF_VSOCK: return "vsock";
    case AF_ALG: return "kernel crypto (AF_ALG)";
    default: return "family " + std::to_string(socket.family());
  }
}

}  // namespace

std::string address_text(const std::string& bytes) {
  if (bytes.size() < sizeof(sa_family_t)) return {};
  char text[INET6_ADDRSTRLEN] = "";
  switch (as<sa_family_t>(bytes)) {
    case AF_INET: {
      const auto address = as<sockaddr_in>(bytes);
      inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
      return std::string(text) + ":" + std::to_string(ntohs(address.sin_port));
    }
    case AF_INET6: {
      const auto address = as<sockaddr_in6>(bytes);
      inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof text);
      return "[" + std::string(text) + "]:" + std::to_string(ntohs(address.sin6_port));
    }
    case AF_UNIX: {
      std::string path = bytes.substr(std::min(bytes.size(), offsetof(sockaddr_un, sun_path)));
      if (path.empty()) return {};
      if (path.front() == '\0') {
        path.front() = '@';
        return path;
      }
      return path.substr(0, path.find('\0'));
    }
    case AF_NETLINK: return "port " + std::to_string(netlink_port(bytes));
    default: return {};
  }
}

const Socket::Option* find_option(const Socket& socket, int level, int name) {
  for (const auto& option : socket.options())
    if (option.level() == level && option.name() == name) return &option;
  return nullptr;
}

std::uint32_t netlink_port(const std::string& sockaddr) { return as<sockaddr_nl>(sockaddr).nl_pid; }

bool socket_was_dead(const Socket& socket) { return find_option(socket, kOwnLevel, kOwnDead) != nullptr; }
bool socket_connected(const Socket& socket) {
  // getpeername() of a netlink socket returns port 0, the kernel, if it is not connected.
  if (socket.family() == AF_NETLINK && netlink_port(socket.peer()) == 0) return false;
  return !socket.peer().empty() && !socket_was_dead(socket);
}

std::string socket_problem(const Socket& socket) {
  if (!socket.ulp().empty() && !socket_connected(socket)) return "it has TCP's upper layer protocol " + socket.ulp();
  if (find_option(socket, kOwnLevel, kOwnProgram))
    return "it has an eBPF filter, which cannot be read (SO_ATTACH_BPF)";
  const auto* option = find_option(socket, kOwnLevel, kOwnUnseen);
  if (!option) return {};
  switch (static_cast<Unseen>(as<std::uint32_t>(option->value()))) {
    case Unseen::rights: return "its queue contains descriptors (SCM_RIGHTS)";
    case Unseen::credentials: return "its queue contains data from another process or user (SCM_CREDENTIALS)";
    case Unseen::urgent: return "its queue contains an out-of-band byte (MSG_OOB)";
  }
  return "its queue could not be saved";
}

bool socket_remakeable(const Socket& socket) {
  if (!socket_problem(socket).empty()) return false;
  if (socket.inside()) return true;
  const bool inet = socket.family() == AF_INET || socket.family() == AF_INET6;
  if (socket_was_dead(socket)) return socket.type() == SOCK_STREAM || socket.family() == AF_UNIX;
  if (socket.listening()) return inet || socket.family() == AF_UNIX;
  if (socket_connected(socket)) return (inet && socket.type() == SOCK_DGRAM) || socket.family() == AF_NETLINK;
  return inet || socket.family() == AF_UNIX || socket.family() == AF_NETLINK;
}

std::string unix_path(const std::string& address) {
  if (address.size() <= offsetof(sockaddr_un, sun_path) || as<sa_family_t>(address) != AF_UNIX) return {};
  const std::string path = address.substr(offsetof(sockaddr_un, sun_path));
  return path.front() == '\0' ? std::string() : path.substr(0, path.find('\0'));
}

std::string socket_path(const Socket& socket) { return unix_path(socket.local()); }

std::string socket_text(const Socket& socket) {
  const std::string name = family_name(socket), local = address_text(socket.local());
  if (socket.listening()) return "listening " + name + " socket " + local;
  if (socket_was_dead(socket)) return name + " socket whose peer had gone";
  if (socket_connected(socket)) {
    const std::string peer = address_text(socket.peer());
    std::string text = name + (socket.type() == SOCK_STREAM || socket.type() == SOCK_SEQPACKET ? " connection" : " socket");
    if (!local.empty()) text += " " + local;
    if (!peer.empty()) text += " -> " + peer;
    return text;
  }
  return name + " socket" + (local.empty() ? "" : " " + local);
}

}  // namespace reprise
