// SPDX-License-Identifier: GPL-2.0-only
// The coordinator's part in copies of kept memory that programs ask for between waves.
#include "coordinator.h"

namespace reprise::job {

void Coordinator::has_copy(const HasCopy& message, NodeIndex from, Now now) {
  const KeptCopy& copy = message.copy();
  if (!kept_copies_ || !node_of(copy.rank())) return;
  if (message.error().empty())
    event({{"event", "kept-copied"}, {"rank", copy.rank()}, {"name", copy.name()}, {"node", from}, {"bytes", copy.bytes()}}, now);
  else
    out_.say(Log::WARNING, members_.host(from) + " could not keep a copy of kept memory " + copy.name() + " of " + on(copy.rank()) + " (" +
                               message.error() + "); another node is asked");
  kept_copies_->has(from, message);
  if (phase_ == Phase::running) copy_kept();
}

void Coordinator::copy_kept() {
  if (!kept_copies_ || postponed_) return;
  const auto partners = [this](NodeIndex node, std::size_t most) {
    return protection_.partners(node, {placement_.begin(), placement_.end()}, takes_copies(), most);
  };
  KeptCopies::Step step = kept_copies_->next([this](Rank rank) { return node_of(rank); }, partners, serving());
  for (KeepCopy& order : step.orders) {
    Down& down = out_.send({order.to()});
    *down.mutable_keep_copy() = std::move(order);
  }
  for (auto& [to, answer] : step.answers) *out_.send({to}).mutable_kept_copied() = std::move(answer);
}

}  // namespace reprise::job
