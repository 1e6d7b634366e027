// SPDX-License-Identifier: GPL-2.0-only
#include "recovery_plan.h"

namespace reprise::job {

std::optional<RecoveryPlan> plan_recovery(const PlacementTable& placement, const std::vector<Seat>& seats, bool double_up,
                                          const Store& store, const LiveProcess& live) {
  auto placed = place_again(placement, seats, double_up);
  if (!placed) return std::nullopt;
  RecoveryPlan out{std::move(*placed), 0, {}};
  out.wave = store.choose(out.placement).value_or(0);
  if (!out.wave) return out;
  const StoredWave& stored = *store.find(out.wave);
  for (Rank rank = 0; rank < out.placement.size(); ++rank) {
    const StoredRank& image = stored.ranks[rank];
    const auto incarnation = live(rank);
    // A process that was started anew since the wave does not match the image. A rank that moves or has ended has no
    // process to pause.
    if (!incarnation || *incarnation > stored.recovery || !image.local || image.node != out.placement[rank]) out.restart.insert(rank);
  }
  return out;
}

void RecoveryPlan::fill(Recover& message, const Store& store) const {
  message.set_wave(wave);
  for (Rank rank = 0; rank < placement.size(); ++rank) {
    Placement& place = *message.add_placement();
    place.set_rank(rank);
    place.set_node(placement[rank]);
    if (placement.size() <= kWholeTables || restart.count(rank)) *message.add_images() = store.place(wave, rank, placement[rank]);
  }
  for (Rank rank : restart) message.add_restart(rank);
}

}  // namespace reprise::job
