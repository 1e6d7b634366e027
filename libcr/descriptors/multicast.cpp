// SPDX-License-Identifier: LGPL-2.1-or-later
#include "descriptors/multicast.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "base/proc_dir.h"
#include "base/text.h"

namespace reprise {
namespace {

constexpr std::size_t kMostSources = 128;

struct Group {
  unsigned interface;
  std::string name;  // of the interface
  sockaddr_storage address;
};

/** Parse /proc/PID/net/igmp: one line for each interface, then an indented line for each of its groups. */
std::vector<Group> groups_v4(const std::string& text) {
  std::vector<Group> all;
  std::istringstream lines(text);
  Group group = {};
  for (std::string line; std::getline(lines, line);) {
    unsigned address;
    char name[64];
    const bool indented = !line.empty() && line.front() == '\t';
    if (!indented) {
      if (std::sscanf(line.c_str(), "%u %63s", &group.interface, name) == 2) group.name = name;
    } else if (std::sscanf(line.c_str(), " %8x", &address) == 1) {
      sockaddr_in at = {};
      at.sin_family = AF_INET;
      at.sin_addr.s_addr = address;  // the kernel prints the word in network byte order
      group.address = {};
      std::memcpy(&group.address, &at, sizeof at);
      all.push_back(group);
    }
  }
  return all;
}

/** Parse /proc/PID/net/igmp6: index and name of the interface, group. */
std::vector<Group> groups_v6(const std::string& text) {
  std::vector<Group> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    unsigned interface;
    char name[64], hex[33];
    if (std::sscanf(line.c_str(), "%u %63s %32s", &interface, name, hex) != 3 || std::strlen(hex) != 32) continue;
    sockaddr_in6 at = {};
    at.sin6_family = AF_INET6;
    for (int i = 0; i < 16; ++i) {
      unsigned byte = 0;
      std::sscanf(hex + 2 * i, "%2x", &byte);
      at.sin6_addr.s6_addr[i] = static_cast<std::uint8_t>(byte);
    }
    Group group = {interface, name, {}};
    std::memcpy(&group.address, &at, sizeof at);
    all.push_back(group);
  }
  return all;
}

int level_of(const sockaddr_storage& group) { return group.ss_family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6; }

/** @return the socket's struct group_filter for the group; "" if it is not a member */
std::string filter_of(int fd, const Group& group) {
  std::string bytes(GROUP_FILTER_SIZE(kMostSources), '\0');
  group_filter head = {};
  head.gf_interface = group.interface;
  head.gf_group = group.address;
  head.gf_numsrc = kMostSources;
  std::memcpy(bytes.data(), &head, GROUP_FILTER_SIZE(0));
  auto size = static_cast<socklen_t>(bytes.size());
  if (::getsockopt(fd, level_of(group.address), MCAST_MSFILTER, bytes.data(), &size) != 0) return {};
  std::memcpy(&head, bytes.data(), GROUP_FILTER_SIZE(0));
  bytes.resize(GROUP_FILTER_SIZE(std::min<std::size_t>(head.gf_numsrc, kMostSources)));
  return bytes;
}

}  // namespace

std::vector<std::string> multicast_memberships(int fd, const Socket& socket, pid_t pid) {
  std::vector<std::string> memberships;
  const bool v6 = socket.family() == AF_INET6;
  if ((socket.family() != AF_INET && !v6) || socket.type() == SOCK_STREAM) return memberships;
  const ProcDir net(pid, "net");
  std::vector<Group> groups = groups_v4(net.try_read("igmp").value_or(""));
  if (v6)
    for (Group& group : groups_v6(net.try_read("igmp6").value_or(""))) groups.push_back(std::move(group));
  for (const Group& group : groups) {
    const std::string filter = filter_of(fd, group);
    if (filter.empty()) continue;
    std::string name = group.name;
    name.resize(IFNAMSIZ);
    memberships.push_back(name + filter);
  }
  return memberships;
}

std::string join_multicast(int fd, const std::string& membership) {
  const std::string name = membership.substr(0, std::min<std::size_t>(IFNAMSIZ, membership.size()));
  std::string filter = membership.substr(name.size());
  group_filter head = {};
  if (filter.size() < GROUP_FILTER_SIZE(0)) return "a multicast group (the image is damaged)";
  std::memcpy(&head, filter.data(), GROUP_FILTER_SIZE(0));
  if (head.gf_numsrc > kMostSources || filter.size() != GROUP_FILTER_SIZE(head.gf_numsrc))
    return "a multicast group (the image is damaged)";
  const std::string interface = name.c_str();
  char text[INET6_ADDRSTRLEN] = "";
  const auto* bytes = reinterpret_cast<const char*>(&head.gf_group);
  const bool v4 = head.gf_group.ss_family == AF_INET;
  const std::size_t at = v4 ? offsetof(sockaddr_in, sin_addr) : offsetof(sockaddr_in6, sin6_addr);
  ::inet_ntop(v4 ? AF_INET : AF_INET6, bytes + at, text, sizeof text);
  const auto failed = [&] {
    return "multicast group " + std::string(text) + " of " + interface + " (" + error_text(errno) + ")";
  };
  // The interface may have another index now.
  head.gf_interface = ::if_nametoindex(interface.c_str());
  if (head.gf_interface == 0) return failed();
  std::memcpy(filter.data(), &head, GROUP_FILTER_SIZE(0));
  group_req group = {};
  group.gr_interface = head.gf_interface;
  group.gr_group = head.gf_group;
  const int level = level_of(head.gf_group);
  if (::setsockopt(fd, level, MCAST_JOIN_GROUP, &group, sizeof group) != 0 && errno != EADDRINUSE) return failed();
  if (head.gf_fmode == MCAST_EXCLUDE && head.gf_numsrc == 0) return {};
  if (::setsockopt(fd, level, MCAST_MSFILTER, filter.data(), static_cast<socklen_t>(filter.size())) != 0) return failed();
  return {};
}

}  // namespace reprise
