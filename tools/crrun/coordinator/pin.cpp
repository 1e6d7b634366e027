// SPDX-License-Identifier: GPL-2.0-only
#include "pin.h"

namespace reprise::job {

void Pin::note(Ranks& ranks, Rank rank) {
  if (rank >= ranks.by_rank.size() || ranks.by_rank[rank]) return;
  ranks.by_rank[rank] = true;
  ++ranks.count;
}

void Pin::forget() {
  asked_ = released_ = Ranks(asked_.by_rank.size());
  taking_ = 0;
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
