// SPDX-License-Identifier: GPL-2.0-only
// The end of a recovery: all ranks are restored, and are told to continue.
#include <algorithm>
#include <cstring>

#include "crd/environment.h"
#include "crd/launch.h"
#include "crd/recovery.h"

namespace reprise::crd {

/** Split the moved ranks into as many messages as needed. */
void Recovery::tell_moved(std::uint32_t number, const job::Resume& message) {
  constexpr int kMost = (CR_RANK_MAX - sizeof(cr_rank_moved)) / sizeof(std::uint32_t);
  for (int at = 0; at < message.moved_size(); at += kMost) {
    const int count = std::min(kMost, message.moved_size() - at);
    std::string packet(sizeof(cr_rank_moved) + static_cast<std::size_t>(count) * sizeof(std::uint32_t), '\0');
    cr_rank_moved head{};
    head.head = {CR_RANK_MOVED, static_cast<std::uint32_t>(packet.size()), number, number_};
    head.count = static_cast<std::uint32_t>(count);
    std::memcpy(packet.data(), &head, sizeof head);
    std::memcpy(packet.data() + sizeof head, message.moved().data() + at, packet.size() - sizeof head);
    node_.socket->send(number, packet.data(), packet.size());
  }
}

void Recovery::resume(const job::Resume& message) {
  if (message.recovery() != number_ || number_ != node_.recovery) return;
  resumed_told_ = false;
  const std::uint32_t spin = crowded(node_) ? crowded_spin(node_.job) : 0;
  for (auto& [number, bringing] : ranks_) {
    bringing.resume_report.set_begin_unix_ns(unix_ns());
    // Split the addresses into as many messages as needed.
    std::string table(sizeof(cr_rank_peers), '\0');
    std::uint32_t entries = 0;
    const auto flush = [&] {
      cr_rank_peers head{};
      head.head = {CR_RANK_PEERS, static_cast<std::uint32_t>(table.size()), number, number_};
      head.entries = entries;
      std::memcpy(table.data(), &head, sizeof head);
      node_.socket->send(number, table.data(), table.size());
      table.resize(sizeof head);
      entries = 0;
    };
    for (const job::RankAddress& address : message.addresses()) {
      std::string strings;
      for (const std::string& one : address.addresses()) strings += one + '\0';
      strings.resize((strings.size() + 3) / 4 * 4);
      cr_rank_peer peer{};
      peer.rank = address.rank();
      peer.incarnation = address.incarnation();
      peer.addresses = static_cast<std::uint16_t>(address.addresses_size());
      peer.length = static_cast<std::uint16_t>(sizeof peer + strings.size());
      if (table.size() + peer.length > CR_RANK_MAX) flush();
      table.append(reinterpret_cast<const char*>(&peer), sizeof peer);
      table += strings;
      ++entries;
    }
    flush();
    tell_moved(number, message);
    node_.give_lanes(number);
    cr_rank_resume resume{};
    resume.spin = spin;
    resume.node = node_.index;
    std::memcpy(resume.nonce, message.nonce().data(), std::min(sizeof resume.nonce, message.nonce().size()));
    node_.socket->send(resume, CR_RANK_RESUME, number, number_);
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
