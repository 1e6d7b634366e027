// SPDX-License-Identifier: GPL-2.0-only
#include "recovery.h"

#include <algorithm>

namespace reprise::job {

const char* name(CauseKind kind) {
  switch (kind) {
    case CauseKind::node_lost: return "node_lost";
    case CauseKind::new_daemon: return "new_daemon";
    case CauseKind::rank_died: return "rank_died";
    case CauseKind::link_broken: return "link_broken";
    case CauseKind::hang: return "hang";
    case CauseKind::failed: return "failed_recovery";
    case CauseKind::request: return "request";
    case CauseKind::drain: return "drain";
    case CauseKind::restart: return "restart";
    case CauseKind::attach: return "attach";
  }
  return "?";
}

namespace {
/** At most so many false alarms within a multiple of the detection time. */
constexpr std::size_t kInVain = 3;
constexpr std::uint64_t kInVainWithin = 10;
}  // namespace

RecoveryRound::RecoveryRound(RecoveryNumber recovery, WaveNumber wave, Roster roster, std::set<Rank> restart, Now begun,
                             std::uint64_t timeout_ms)
    : recovery_(recovery),
      wave_(wave),
      restart_(std::move(restart)),
      timeout_ms_(timeout_ms),
      deadline_ms_(begun.ms + timeout_ms),
      roster_(std::move(roster)),
      have_(roster_.size(), false) {}

bool RecoveryRound::answered(Rank rank) const {
  const auto place = roster_.place(rank);
  return place && have_[*place];
}

bool RecoveryRound::answer(Rank rank) {
  const auto place = roster_.place(rank);
  if (!place || have_[*place]) return false;
  have_[*place] = true;
  ++answered_;
  return true;
}

void RecoveryRound::restored(const Restored& message) {
  if (message.recovery() != recovery_ || step_ != Step::restoring) return;
  for (const RankRestored& rank : message.ranks())
    if (answer(rank.rank()) && !rank.error().empty())
      failures_.push_back({rank.rank(), rank.error(), rank.image_bad(), restart_.count(rank.rank()) > 0, rank.stays()});
}

void RecoveryRound::resumed(const Resumed& message) {
  if (message.recovery() != recovery_ || step_ != Step::resuming) return;
  for (const RankResumed& rank : message.ranks())
    if (answer(rank.rank()) && !rank.error().empty())
      failures_.push_back({rank.rank(), rank.error(), false, restart_.count(rank.rank()) > 0, false});
}

void RecoveryRound::resume(Now now) {
  step_ = Step::resuming;
  deadline_ms_ = now.ms + timeout_ms_;
  have_.assign(have_.size(), false);
  answered_ = 0;
}

std::vector<Rank> RecoveryRound::missing() const {
  std::vector<Rank> out;
  for (std::size_t place = 0; place < have_.size(); ++place)
    if (!have_[place]) out.push_back(roster_.number(place));
  return out;
}

void Recovering::depart(const PlacementTable& from, const PlacementTable& to, const std::function<bool(NodeIndex)>& lives) {
  // Nodes that have not answered in the recovery before may still have processes that it moved away.
  std::erase_if(leaving_, [&](NodeIndex node) { return !lives(node); });
  left_before_ = !leaving_.empty();
  arriving_.clear();
  held_back_.reset();
  for (Rank rank = 0; rank < from.size(); ++rank) {
    if (from[rank] == to[rank] || !lives(from[rank])) continue;
    leaving_.insert(from[rank]);
    arriving_.insert(to[rank]);
  }
}

std::vector<Recovering::Order> Recovering::begin(RecoveryRound round, Recover message, const std::vector<NodeIndex>& living,
                                                 const std::set<NodeIndex>& hosts) {
  round_.emplace(std::move(round));
  if (left_before_) arriving_.insert(hosts.begin(), hosts.end());
  std::erase_if(arriving_, [this](NodeIndex node) { return leaving_.count(node) > 0; });
  if (arriving_.empty()) return {{{}, std::move(message)}};
  std::vector<NodeIndex> at_once;
  for (NodeIndex node : living)
    if (!arriving_.count(node)) at_once.push_back(node);
  held_back_.emplace(std::vector<NodeIndex>(arriving_.begin(), arriving_.end()), message);
  std::vector<Order> out;
  if (!at_once.empty()) out.emplace_back(std::move(at_once), std::move(message));
  return out;
}

std::optional<Recovering::Order> Recovering::departed() {
  return leaving_.empty() ? std::exchange(held_back_, std::nullopt) : std::nullopt;
}

Recovering::Verdict Recovering::verdict(Now now) const {
  if (!round_) return Verdict::pending;
  const auto& failures = round_->failures();
  if (std::any_of(failures.begin(), failures.end(), [](const auto& failure) { return failure.stays; })) return Verdict::failed;
  if (round_->all_answered()) {
    if (!failures.empty()) return Verdict::failed;
    if (round_->step() == RecoveryRound::Step::resuming) return Verdict::complete;
    // The ranks must not continue before the processes that moved away have ended on their old nodes.
    if (leaving_.empty()) return Verdict::resume;
  }
  return round_->late(now) ? Verdict::failed : Verdict::pending;
}

std::set<NodeIndex> Recovering::silent(const std::function<std::optional<NodeIndex>(Rank)>& node_of) const {
  std::set<NodeIndex> out = leaving_;
  for (Rank rank : round_->missing()) {
    // A node that was to wait for others has not been asked.
    const auto node = node_of(rank);
    if (node && (!held_back_ || !arriving_.count(*node))) out.insert(*node);
  }
  return out;
}

void Recovering::end() {
  round_.reset();
  held_back_.reset();
}

bool Expectation::allowed(Now now) {
  std::erase_if(in_vain_ms_, [&](std::uint64_t ms) { return now.ms > ms + kInVainWithin * detect_ms_; });
  return in_vain_ms_.size() < kInVain;
}

bool Expectation::set(std::set<NodeIndex> nodes, Now now) {
  if (nodes == nodes_) return false;
  if (nodes.empty()) in_vain_ms_.push_back(now.ms);
  nodes_ = std::move(nodes);
  return true;
}

}  // namespace reprise::job
