// SPDX-License-Identifier: GPL-2.0-only
// The end of a recovery: all ranks are restored, and are told to continue.
#include <algorithm>
#include <cstring>

#include "crd/environment.h"
#include "crd/launch.h"
#include "crd/peers.h"
#include "crd/recovery.h"

namespace reprise::crd {

void Recovery::resume(const job::Resume& message) {
  if (message.recovery() != number_ || number_ != node_.recovery) return;
  resumed_told_ = false;
  const std::uint32_t spin = crowded(node_) ? crowded_spin(node_.job) : 0;
  const auto namespaces = by_namespace(node_, message);
  for (auto& [number, bringing] : ranks_) {
    bringing.resume_report.set_begin_unix_ns(unix_ns());
    tell_peers(node_, number, namespaces);
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
