// SPDX-License-Identifier: GPL-2.0-only
#include "crd/peers.h"

#include <algorithm>
#include <cstring>

namespace reprise::crd {

namespace {

std::string padded(std::string text) {
  text.resize((text.size() + 3) / 4 * 4);
  return text;
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
void tell_addresses(const Node& node, std::uint32_t number, const std::string& name,
                    const std::vector<const job::RankAddress*>& addresses) {
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

Namespaces by_namespace(const Node& node, const job::Resume& message) {
  Namespaces out;
  for (const job::RankAddress& address : message.addresses()) out[node.name_of(address.rank()).nspace].addresses.push_back(&address);
  for (const std::uint32_t number : message.moved()) {
    const ProcessName name = node.name_of(number);
    out[name.nspace].moved.push_back(name.rank);
  }
  return out;
}

void tell_peers(const Node& node, std::uint32_t number, const Namespaces& namespaces) {
  const std::string own = node.name_of(number).nspace;
  for (const auto& [nspace, ranks] : namespaces) {
    const std::string name = nspace == own ? "" : padded(nspace + '\0');
    tell_addresses(node, number, name, ranks.addresses);
    tell_moved(node, number, name, ranks.moved);
  }
}

}  // namespace reprise::crd
