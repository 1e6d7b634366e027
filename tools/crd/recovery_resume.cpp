// SPDX-License-Identifier: GPL-2.0-only
// The end of a recovery: all ranks are restored, and are told to continue.
#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "crd/environment.h"
#include "crd/launch.h"
#include "crd/recovery.h"

namespace reprise::crd {

namespace {

std::string padded(std::string text) {
  text.resize((text.size() + 3) / 4 * 4);
  return text;
}

/** What Resume says of the processes of one namespace. */
struct Namespace {
  std::vector<const job::RankAddress*> addresses;
  std::vector<std::uint32_t> moved;  ///< ranks in the namespace
};

std::map<std::string, Namespace> by_namespace(const Node& node, const job::Resume& message) {
  std::map<std::string, Namespace> out;
  for (const job::RankAddress& address : message.addresses()) out[node.name_of(address.rank()).nspace].addresses.push_back(&address);
  for (const std::uint32_t number : message.moved()) {
    const ProcessName name = node.name_of(number);
    out[name.nspace].moved.push_back(name.rank);
  }
  return out;
}

/** Send a packet whose header is filled in, but for its length. */
template <class Head>
void send(const Node& node, std::uint32_t number, Head head, std::string& packet) {
  head.head.length = static_cast<std::uint32_t>(packet.size());
  std::memcpy(packet.data(), &head, sizeof head);
  node.tell(number, packet.data(), packet.size());
}

/** @param name of the namespace, padded; "": it is the receiver's own. Splits the ranks into as many messages as needed */
void tell_moved(const Node& node, std::uint32_t number, const std::string& name, const std::vector<std::uint32_t>& moved) {
  const std::size_t most = (CR_RANK_MAX - sizeof(cr_rank_moved) - name.size()) / sizeof(std::uint32_t);
  for (std::size_t at = 0; at < moved.size(); at += most) {
    cr_rank_moved head{};
    head.head = {CR_RANK_MOVED, 0, number, node.recovery};
    head.count = static_cast<std::uint32_t>(std::min(most, moved.size() - at));
    head.nspace = static_cast<std::uint32_t>(name.size());
    std::string packet(sizeof head, '\0');
    packet += name;
    packet.append(reinterpret_cast<const char*>(moved.data() + at), head.count * sizeof(std::uint32_t));
    send(node, number, head, packet);
  }
}

/** The same for the addresses of the namespace's ranks. */
void tell_peers(const Node& node, std::uint32_t number, const std::string& name, const std::vector<const job::RankAddress*>& addresses) {
  cr_rank_peers head{};
  head.head = {CR_RANK_PEERS, 0, number, node.recovery};
  head.nspace = static_cast<std::uint32_t>(name.size());
  std::string empty(sizeof head, '\0');
  empty += name;
  std::string table = empty;
  for (const job::RankAddress* address : addresses) {
    std::string strings;
    for (const std::string& one : address->addresses()) strings += one + '\0';
    strings = padded(std::move(strings));
    cr_rank_peer peer{};
    peer.rank = node.name_of(address->rank()).rank;
    peer.incarnation = address->incarnation();
    peer.addresses = static_cast<std::uint16_t>(address->addresses_size());
    peer.length = static_cast<std::uint16_t>(sizeof peer + strings.size());
    if (table.size() + peer.length > CR_RANK_MAX) {
      send(node, number, head, table);
      table = empty;
      head.entries = 0;
    }
    table.append(reinterpret_cast<const char*>(&peer), sizeof peer);
    table += strings;
    ++head.entries;
  }
  if (head.entries) send(node, number, head, table);
}

}  // namespace

void Recovery::resume(const job::Resume& message) {
  if (message.recovery() != number_ || number_ != node_.recovery) return;
  resumed_told_ = false;
  const std::uint32_t spin = crowded(node_) ? crowded_spin(node_.job) : 0;
  const auto namespaces = by_namespace(node_, message);
  for (auto& [number, bringing] : ranks_) {
    bringing.resume_report.set_begin_unix_ns(unix_ns());
    const std::string own = node_.name_of(number).nspace;
    for (const auto& [nspace, ranks] : namespaces) {
      const std::string name = nspace == own ? "" : padded(nspace + '\0');
      tell_peers(node_, number, name, ranks.addresses);
      tell_moved(node_, number, name, ranks.moved);
    }
    node_.give_lanes(number);
    cr_rank_resume resume{};
    resume.spin = spin;
    resume.node = node_.index;
    resume.pinned = message.pinned();
    resume.lost = std::find(message.lost().begin(), message.lost().end(), number) != message.lost().end();
    std::memcpy(resume.nonce, message.nonce().data(), std::min(sizeof resume.nonce, message.nonce().size()));
    node_.tell(number, resume, CR_RANK_RESUME);
  }
  tell_when_resumed();
}

void Recovery::resumed(const RankMessage& message) {
  const auto& said = message.as<cr_rank_resumed>();
  const auto found = ranks_.find(said.head.rank);
  if (found == ranks_.end() || said.head.recovery != number_) return;
  found->second.resumed = true;
  found->second.resume_report.set_discarded_bytes(said.discarded_bytes);
  found->second.resume_report.set_kept(said.kept);
  found->second.resume_report.set_closed(said.closed);
  found->second.resume_report.set_end_unix_ns(unix_ns());
  tell_when_resumed();
}

void Recovery::tell_when_resumed() {
  if (resumed_told_ || std::any_of(ranks_.begin(), ranks_.end(), [](const auto& one) { return !one.second.resumed; })) return;
  resumed_told_ = true;
  job::Up up;
  up.mutable_resumed()->set_recovery(number_);
  for (const auto& [number, bringing] : ranks_) *up.mutable_resumed()->add_ranks() = bringing.resume_report;
  node_.send(std::move(up));
  ranks_.clear();
}

}  // namespace reprise::crd
