// SPDX-License-Identifier: GPL-2.0-only
#include "pin.h"

namespace reprise::job {

namespace {
/** So long do ranks wait that can do without. A wave that is being taken is waited for. */
constexpr std::uint64_t kOtherwiseNoneMs = 10'000;
}  // namespace

void Pin::note(Ranks& ranks, Rank rank) {
  if (rank >= ranks.by_rank.size() || ranks.by_rank[rank]) return;
  ranks.by_rank[rank] = true;
  ++ranks.count;
}

void Pin::forget() {
  asked_ = released_ = Ranks(asked_.by_rank.size());
  taking_ = 0;
  or_none_ = true;
  refused_ = false;
}

void Pin::ask(Rank rank, bool or_none, Now now) {
  const std::size_t before = asked_.count;
  note(asked_, rank);
  or_none_ &= or_none;
  refused_ &= or_none;
  if (asked_.count != before) last_asked_ms_ = now.ms;
}

bool Pin::hopeless(Now now) const { return wanted() && or_none_ && now.ms >= last_asked_ms_ + kOtherwiseNoneMs; }

void Pin::refuse() {
  forget();
  refused_ = true;
}

bool Pin::release(Rank rank) {
  if (!wave_) return false;
  note(released_, rank);
  if (released_.count < released_.by_rank.size()) return false;
  forget();
  wave_ = 0;
  return true;
}

void Pin::pinned(WaveNumber wave) {
  forget();
  wave_ = wave;
}

void Pin::rolled_back(const StoredWave* wave) {
  forget();
  wave_ = wave && wave->pinned ? wave->wave : 0;
}

}  // namespace reprise::job
