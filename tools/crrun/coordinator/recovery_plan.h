// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What a recovery restores, and where: decided from the stored waves, the nodes and the living processes. */
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "placement.h"
#include "store.h"
#include "types.h"

namespace reprise::job {

/** Where a node hands its images out to others; nothing: it does not, or is not up. */
using Serving = std::function<const Relaying*(NodeIndex)>;

struct RecoveryPlan {
  PlacementTable placement;  ///< of the job's own ranks
  WaveNumber wave = 0;       ///< 0: no wave is usable, the job begins anew
  PlacementTable nodes;      ///< by place in the wave's roster
  std::set<Rank> restart;    ///< numbers of those that get a new process; the others are paused

  /**
   * What daemons need to know: the wave, the placement, the ranks to restart, and where images are.
   * @param serving where a node hands its images out
   */
  void fill(Recover& message, const Store& store, const Serving& serving) const;
};

/** Whether a rank has a process that can be paused. */
using LiveProcess = std::function<bool(Rank)>;

/**
 * Choose the newest wave that is available. @param spawned where the spawned processes are that run
 * @return nothing if there is no place for the ranks of nodes that are not usable
 */
std::optional<RecoveryPlan> plan_recovery(const PlacementTable& placement, const std::map<Rank, NodeIndex>& spawned,
                                          const std::vector<Seat>& seats, bool double_up, const Store& store, const LiveProcess& live,
                                          const Serves& serves);

}  // namespace reprise::job
