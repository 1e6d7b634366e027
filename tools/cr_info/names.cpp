// SPDX-License-Identifier: GPL-2.0-only
#include "names.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <cwchar>
#include <cwctype>
#include <map>
#include <vector>

#include "cr.h"

namespace reprise {

std::string system_call_name(std::int64_t number) {
  static const std::map<std::int64_t, const char*> names = {
#include "system_calls.inc"
  };
  const auto found = names.find(number);
  return found == names.end() ? fmt::format("call {}", number) : found->second;
}

std::string signal_name(int number) {
  if (number >= 34 && number <= 64) return fmt::format("RT+{}", number - 34);
  const char* name = ::sigabbrev_np(number);
  return name ? name : std::to_string(number);
}

std::string signal_set(std::uint64_t mask) {
  if (mask == 0) return "-";
  const int count = __builtin_popcountll(mask);
  if (count > 32) {  // nearly all: name those that are not in the set
    const std::uint64_t rest = ~mask;
    return rest ? "all but " + signal_set(rest) : "all";
  }
  std::string out;
  for (int i = 0; i < 64; ++i)
    if (mask >> i & 1) out += (out.empty() ? "" : " ") + signal_name(i + 1);
  return out;
}

std::string time_text(std::int64_t unix_ns) {
  const std::time_t seconds = unix_ns / 1'000'000'000;
  std::tm parts{};
  if (!::localtime_r(&seconds, &parts)) return fmt::format("{} s after 1970", seconds);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %z", &parts);
  return text;
}

std::string limit_name(unsigned resource) {
  static const char* const names[] = {"CPU",      "FSIZE",  "DATA",    "STACK", "CORE",  "RSS",
                                      "NPROC",    "NOFILE", "MEMLOCK", "AS",    "LOCKS", "SIGPENDING",
                                      "MSGQUEUE", "NICE",   "RTPRIO",  "RTTIME"};
  return resource < std::size(names) ? names[resource] : std::to_string(resource);
}

std::string open_flags(unsigned flags) {
  if (flags & O_PATH) return "path";
  std::string out = (flags & O_ACCMODE) == O_RDONLY ? "r" : (flags & O_ACCMODE) == O_WRONLY ? "w" : "rw";
  const std::pair<unsigned, const char*> words[] = {{O_APPEND, " append"}, {O_NONBLOCK, " nonblock"},
                                                    {O_DIRECT, " direct"}, {O_SYNC, " sync"},
                                                    {O_ASYNC, " async"},   {O_NOATIME, " noatime"}};
  for (const auto& [bit, word] : words)
    if ((flags & bit) == bit) out += word;
  return out;
}

std::string mapping_flags(std::uint64_t flags) {
  const std::pair<std::uint64_t, const char*> words[] = {
      {CR_VMA_GROWSDOWN, "grows-down"}, {CR_VMA_LOCKED, "locked"},       {CR_VMA_LOCKONFAULT, "lock-on-fault"},
      {CR_VMA_NORESERVE, "noreserve"},  {CR_VMA_HUGEPAGE, "huge"},       {CR_VMA_NOHUGEPAGE, "no-huge"},
      {CR_VMA_MERGEABLE, "mergeable"},  {CR_VMA_DONTFORK, "dont-fork"},  {CR_VMA_WIPEONFORK, "wipe-on-fork"},
      {CR_VMA_DROPPABLE, "droppable"},
      {CR_VMA_DONTDUMP, "dont-dump"},   {CR_VMA_SEQ_READ, "sequential"}, {CR_VMA_RAND_READ, "random"},
      {CR_VMA_SHMEM, "shmem"},          {CR_VMA_DEVICE, "device"},       {CR_VMA_HUGETLB, "hugetlb"},
      {CR_VMA_UFFD, "userfaultfd"},     {CR_VMA_SEALED, "sealed"}};
  std::string out;
  for (const auto& [bit, word] : words)
    if (flags & bit) out += (out.empty() ? "" : " ") + std::string(word);
  return out;
}

std::string socket_kind(unsigned family, unsigned type) {
  const char* name = family == AF_UNIX      ? "unix"
                     : family == AF_INET    ? "ip"
                     : family == AF_INET6   ? "ip6"
                     : family == AF_NETLINK ? "netlink"
                                            : nullptr;
  const char* how = type == SOCK_STREAM      ? "stream"
                    : type == SOCK_DGRAM     ? "datagram"
                    : type == SOCK_SEQPACKET ? "seqpacket"
                    : type == SOCK_RAW       ? "raw"
                                             : nullptr;
  return (name ? std::string(name) : fmt::format("family {}", family)) + " " +
         (how ? std::string(how) : fmt::format("type {}", type));
}

std::string socket_address(const std::string& raw) {
  sockaddr_storage address{};
  std::memcpy(&address, raw.data(), std::min(raw.size(), sizeof address));
  char text[INET6_ADDRSTRLEN];
  if (raw.size() < sizeof(sa_family_t)) return "-";
  if (address.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    return fmt::format("{}:{}", ::inet_ntop(AF_INET, &in.sin_addr, text, sizeof text), ntohs(in.sin_port));
  }
  if (address.ss_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(address);
    return fmt::format("[{}]:{}", ::inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text), ntohs(in.sin6_port));
  }
  if (address.ss_family == AF_UNIX) {
    const std::string path = raw.substr(offsetof(sockaddr_un, sun_path));
    if (path.empty()) return "unnamed";
    return printable(path[0] == '\0' ? "@" + path.substr(1) : path.substr(0, path.find('\0')));
  }
  return hex_bytes(raw);
}

std::string printable(const std::string& bytes) {
  std::string out;
  std::mbstate_t state{};
  for (std::size_t at = 0; at < bytes.size();) {
    wchar_t wide = 0;
    const std::size_t used = std::mbrtowc(&wide, bytes.data() + at, bytes.size() - at, &state);
    if (used >= 1 && used <= bytes.size() - at && std::iswprint(static_cast<std::wint_t>(wide))) {
      out += wide == L'\\' ? "\\\\" : bytes.substr(at, used);
      at += used;
    } else {
      state = {};
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[at++]));
    }
  }
  return out;
}

std::string hex_bytes(const std::string& bytes) {
  std::string out;
  for (const unsigned char c : bytes) out += fmt::format("{:02x}", c);
  return out;
}

}  // namespace reprise
