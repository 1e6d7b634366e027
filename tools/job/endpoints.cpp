// SPDX-License-Identifier: GPL-2.0-only
#include "job/endpoints.h"

#include <algorithm>
#include <fstream>
#include <cstdlib>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

namespace reprise::job {
namespace {

/** The addresses of this machine's interfaces. */
template <class F>
void each_address(F&& call) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list)) return;
  for (ifaddrs* at = list; at; at = at->ifa_next) {
    if (!at->ifa_addr || !(at->ifa_flags & IFF_UP)) continue;
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char text[INET6_ADDRSTRLEN];
    const void* raw = family == AF_INET ? static_cast<void*>(&reinterpret_cast<sockaddr_in*>(at->ifa_addr)->sin_addr)
                                        : &reinterpret_cast<sockaddr_in6*>(at->ifa_addr)->sin6_addr;
    if (::inet_ntop(family, raw, text, sizeof text))
      call(std::string(at->ifa_name), family, static_cast<const unsigned char*>(raw), std::string(text),
           (at->ifa_flags & IFF_LOOPBACK) != 0);
  }
  ::freeifaddrs(list);
}

bool in_network(const std::string& cidr, int family, const unsigned char* raw) {
  const std::size_t slash = cidr.find('/');
  if (slash == std::string::npos) return false;
  unsigned char network[16];
  if (::inet_pton(family, cidr.substr(0, slash).c_str(), network) != 1) return false;
  const int bits = std::atoi(cidr.c_str() + slash + 1);
  for (int bit = 0; bit < bits && bit < (family == AF_INET ? 32 : 128); ++bit)
    if ((network[bit / 8] ^ raw[bit / 8]) & (0x80 >> (bit % 8))) return false;
  return true;
}

}  // namespace

std::set<std::string> own_addresses() {
  std::set<std::string> out;
  each_address([&](const std::string&, int, const unsigned char*, const std::string& text, bool) { out.insert(text); });
  return out;
}

std::vector<std::string> own_endpoints(std::uint16_t port, const std::vector<std::string>& interfaces, bool loopback) {
  std::vector<std::string> four, six, local;
  each_address([&](const std::string& name, int family, const unsigned char* raw, const std::string& text, bool is_loopback) {
    const bool wanted = interfaces.empty() || std::any_of(interfaces.begin(), interfaces.end(), [&](const std::string& one) {
                          return one == name || in_network(one, family, raw);
                        });
    const std::string end = ":" + std::to_string(port);
    if (is_loopback) {
      if (loopback && family == AF_INET) local.push_back("tcp://" + text + end);
    } else if (!wanted) {
      return;
    } else if (family == AF_INET) {
      four.push_back("tcp://" + text + end);
    } else if (!(raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80)) {  // link-local addresses are not valid on other nodes
      six.push_back("tcp://[" + text + "]" + end);
    }
  });
  four.insert(four.end(), six.begin(), six.end());
  // Loopback addresses come first when all nodes are this host. Otherwise they are left out: another node would reach
  // itself.
  if (loopback) four.insert(four.begin(), local.begin(), local.end());
  return four;
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::pair<std::string, std::string> split_endpoint(const std::string& endpoint) {
  std::string host = endpoint.starts_with("tcp://") ? endpoint.substr(6) : endpoint, port;
  if (const std::size_t colon = host.rfind(':'); colon != std::string::npos) {
    port = host.substr(colon + 1);
    host.resize(colon);
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {host, port};
}

std::vector<std::string> elsewhere(const std::vector<std::string>& endpoints, const std::string& boot) {
  if (boot.empty() || boot == boot_id()) return endpoints;
  const std::set<std::string> own = own_addresses();
  std::vector<std::string> out;
  for (const std::string& endpoint : endpoints)
    if (!own.count(split_endpoint(endpoint).first)) out.push_back(endpoint);
  return out.empty() ? endpoints : out;
}

}  // namespace reprise::job
