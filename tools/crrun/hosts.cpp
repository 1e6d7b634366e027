// SPDX-License-Identifier: GPL-2.0-only
#include "hosts.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "job/endpoints.h"

namespace reprise::job {

namespace {

constexpr std::size_t kMostNodes = 1'000'000;

std::uint32_t number(const std::string& text, const std::string& of) {
  char* end = nullptr;
  const unsigned long value = std::strtoul(text.c_str(), &end, 10);
  if (text.empty() || *end || text[0] == '-' || value == 0 || value > 1'000'000)
    throw std::runtime_error("\"" + text + "\" is not a number of slots (" + of + ")");
  return static_cast<std::uint32_t>(value);
}

void add(std::vector<Host>& hosts, Host host) {
  // ssh must not take the name for an option.
  if (host.name.empty() || host.name[0] == '-') throw std::runtime_error("\"" + host.name + "\" is not a host name");
  for (Host& known : hosts)
    if (known.name == host.name) {
      known.slots = std::max(known.slots, 1u) + std::max(host.slots, 1u);
      if (known.group.empty()) known.group = host.group;
      if (!host.group.empty() && host.group != known.group)
        throw std::runtime_error(host.name + " is in " + known.group + " and in " + host.group + ": name one rack or switch");
      return;
    }
  hosts.push_back(std::move(host));
}

Host split(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  // An IPv6 address has several colons; it is in brackets if a slot count follows.
  const bool bare_ipv6 = colon != std::string::npos && text.find(':') != colon && text[0] != '[';
  if (colon == std::string::npos || bare_ipv6 || text.back() == ']') return {text, 0};
  std::string name = text.substr(0, colon);
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  return {name, number(text.substr(colon + 1), text)};
}

std::string output_of(const std::string& command) {
  std::string out;
  char buffer[4096];
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) return out;
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, got);
  return ::pclose(pipe) == 0 ? out : "";
}

}  // namespace

std::vector<Host> parse_hosts(const std::string& list) {
  std::vector<Host> out;
  std::istringstream in(list);
  for (std::string one; std::getline(in, one, ',');)
    if (!one.empty()) add(out, split(one));
  return out;
}

std::vector<Host> parse_hostfile(const std::string& text, const std::string& name) {
  std::vector<Host> out;
  std::istringstream in(text);
  int line_number = 0;
  for (std::string line; std::getline(in, line);) {
    ++line_number;
    if (const std::size_t comment = line.find('#'); comment != std::string::npos) line.resize(comment);
    std::istringstream words(line);
    std::string word;
    if (!(words >> word)) continue;
    const std::string where = name + ":" + std::to_string(line_number);
    Host host = split(word);
    while (words >> word) {
      const std::size_t equal = word.find('=');
      const std::string key = word.substr(0, equal);
      if (equal != std::string::npos && equal + 1 < word.size() && (key == "rack" || key == "switch")) {
        if (!host.group.empty()) throw std::runtime_error(where + ": " + host.group + " and " + word + ": name one rack or switch");
        host.group = word;
        continue;
      }
      if (equal == std::string::npos || (key != "slots" && key != "max-slots" && key != "max_slots"))
        throw std::runtime_error(where + ": \"" + word + "\" is not known here; a line is HOST [slots=N] [rack=NAME or switch=NAME]");
      const std::uint32_t value = number(word.substr(equal + 1), where);
      if (key == "slots") host.slots = value;
    }
    add(out, std::move(host));
  }
  if (out.empty()) throw std::runtime_error(name + " names no host");
  return out;
}

std::vector<std::uint32_t> parse_slurm_counts(const std::string& text) {
  std::vector<std::uint32_t> out;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) {
    unsigned value = 0, times = 1;
    if (std::sscanf(one.c_str(), "%9u(x%9u)", &value, &times) < 1 || times > kMostNodes - out.size())
      throw std::runtime_error("SLURM_TASKS_PER_NODE is \"" + text + "\", which is not understood");
    out.insert(out.end(), times, value);
  }
  return out;
}

std::vector<std::string> slurm_names(const std::string& list) {
  if (list.find('[') == std::string::npos) return {list};
  const std::string allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,[]";
  if (list.find_first_not_of(allowed) != std::string::npos) return {};
  std::vector<std::string> out;
  std::istringstream names(output_of("scontrol show hostnames '" + list + "'"));
  for (std::string name; std::getline(names, name);)
    if (!name.empty()) out.push_back(name);
  return out;
}

std::vector<Host> slurm_hosts() {
  if (!std::getenv("SLURM_JOB_ID") || !std::getenv("SLURM_JOB_NODELIST")) return {};
  std::istringstream names(output_of("scontrol show hostnames"));
  const char* counts_text = std::getenv("SLURM_TASKS_PER_NODE");
  const std::vector<std::uint32_t> counts = parse_slurm_counts(counts_text ? counts_text : "");
  std::vector<Host> out;
  for (std::string name; std::getline(names, name);)
    if (!name.empty()) out.push_back({name, out.size() < counts.size() ? counts[out.size()] : 1});
  if (out.empty())
    throw std::runtime_error("this is a Slurm allocation, but `scontrol show hostnames` names no node: use --hosts");
  return out;
}

bool is_this_host(const std::string& name) {
  char own[256] = "";
  ::gethostname(own, sizeof own - 1);
  const std::string full = own;
  if (name == "localhost" || name == full || name == full.substr(0, full.find('.'))) return true;
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found)) return false;
  const std::set<std::string> mine = own_addresses();
  bool out = false;
  for (addrinfo* at = found; at; at = at->ai_next) {
    char text[NI_MAXHOST];
    if (!::getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST))
      out |= mine.count(text) > 0;
  }
  ::freeaddrinfo(found);
  return out;
}

std::vector<Node> make_nodes(const std::vector<Host>& hosts, const std::vector<Host>& spares) {
  std::vector<Node> out;
  const auto put = [&](const Host& host, bool spare) {
    for (const Node& node : out)
      if (node.host() == host.name) throw std::runtime_error(host.name + " is named twice, as a host and as a spare");
    Node node;
    node.set_index(static_cast<std::uint32_t>(out.size()));
    node.set_host(host.name);
    node.set_slots(host.slots ? host.slots : 1);
    node.set_spare(spare);
    out.push_back(node);
  };
  for (const Host& host : hosts) put(host, false);
  std::uint32_t most = 1;
  for (const Node& node : out) most = std::max(most, node.slots());
  // Unless a number is given, a spare gets as many slots as the largest node.
  for (Host spare : spares) {
    if (!spare.slots) spare.slots = most;
    put(spare, true);
  }
  return out;
}

}  // namespace reprise::job
