// SPDX-License-Identifier: GPL-2.0-only
#include "redundancy_options.h"

#include <charconv>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace reprise::job {

namespace {
/** Each copy costs the network and a disk; of a set one node may be lost. */
constexpr std::uint32_t kMostCopies = 8, kLeastSet = 3, kMostSet = 64;

std::optional<std::uint32_t> count_in(const std::string& text) {
  std::uint32_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

/** The groups of nodes, by their names. A node that is put into none is one of its own. */
class Groups {
 public:
  explicit Groups(const std::vector<Node>& nodes) : of_(nodes.size()) {
    for (const Node& node : nodes) of_[node.index()] = node.index();
  }
  void put(std::uint32_t node, const std::string& name) {
    // From the number of nodes on, so that no node has this number by itself.
    of_[node] = number_of_.emplace(name, static_cast<std::uint32_t>(of_.size() + number_of_.size())).first->second;
  }
  bool none() const { return number_of_.empty(); }
  std::vector<std::uint32_t> take() { return std::move(of_); }

 private:
  std::vector<std::uint32_t> of_;  ///< by node
  std::map<std::string, std::uint32_t> number_of_;
};
}  // namespace

Redundancy parse_redundancy(const std::string& text) {
  Redundancy out;
  if (text == "none") return out;
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const auto count = colon == std::string::npos ? std::nullopt : count_in(text.substr(colon + 1));
  if (kind == "partner" && (colon == std::string::npos || (count && *count >= 1 && *count <= kMostCopies))) {
    out.set_kind(Redundancy::PARTNER);
    out.set_count(count.value_or(1));
  } else if (kind == "xor" && count && *count >= kLeastSet && *count <= kMostSet) {
    out.set_kind(Redundancy::XOR);
    out.set_count(*count);
  } else {
    throw std::runtime_error("--redundancy " + text + ": use partner, partner:COPIES (1 to " + std::to_string(kMostCopies) +
                             "), xor:NODES (" + std::to_string(kLeastSet) + " to " + std::to_string(kMostSet) + ") or none");
  }
  return out;
}

void check_redundancy(const Redundancy& redundancy, const std::vector<Node>& nodes) {
  if (redundancy.kind() == Redundancy::NONE) return;
  const std::size_t needed = redundancy.kind() == Redundancy::PARTNER ? redundancy.count() + 1 : 2;
  if (nodes.size() < needed)
    throw std::runtime_error("--redundancy needs at least " + std::to_string(needed) + " nodes, and the job has " + std::to_string(nodes.size()) +
                             ": name more with --hosts or --spares, or leave --redundancy out");
}

std::vector<std::uint32_t> parse_failure_groups(const std::string& text, const std::string& name, const std::vector<Node>& nodes) {
  std::map<std::string, std::uint32_t> index_of;
  for (const Node& node : nodes) index_of[node.host()] = node.index();
  Groups groups(nodes);
  std::map<std::string, int> line_of;
  std::istringstream in(text);
  int line_number = 0;
  for (std::string line; std::getline(in, line);) {
    ++line_number;
    if (const std::size_t comment = line.find('#'); comment != std::string::npos) line.resize(comment);
    const std::string where = name + ":" + std::to_string(line_number) + ": ";
    std::istringstream words(line);
    std::string group, host;
    if (!(words >> group)) continue;
    if (group.size() < 2 || group.back() != ':') throw std::runtime_error(where + "a line is GROUP: NODE NODE..., not \"" + group + "\"");
    while (words >> host) {
      const auto found = index_of.find(host);
      if (found == index_of.end()) throw std::runtime_error(where + host + " is no node of this job; write nodes as --hosts and --spares do");
      if (const auto [known, fresh] = line_of.emplace(host, line_number); !fresh)
        throw std::runtime_error(where + host + " is in line " + std::to_string(known->second) + " already; name each node once");
      groups.put(found->second, group);
    }
  }
  return groups.take();
}

std::vector<std::uint32_t> failure_groups_of(const std::vector<Host>& hosts, const std::vector<Node>& nodes) {
  Groups groups(nodes);
  for (const Node& node : nodes)
    for (const Host& host : hosts)
      if (host.name == node.host() && !host.group.empty()) groups.put(node.index(), host.group);
  return groups.none() ? std::vector<std::uint32_t>{} : groups.take();
}

}  // namespace reprise::job
