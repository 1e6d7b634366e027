// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Which processes a recovery takes back: all, or only the spawned ones while the job's own ranks run on.
 *
 * The smaller domain is possible as long as nothing has crossed between both since the wave. Of messages only the ranks' transport
 * knows that, and it says so in the recovery; a rank that cannot stay, or does not answer, makes it one of all. What crrun itself
 * knows is decided here, before.
 */
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "recovery.h"
#include "spawns.h"

namespace reprise::job {

enum class Domain : std::uint8_t {
  all,
  spawned,  ///< processes of MPI_Comm_spawn, all that run
};
const char* name(Domain domain);

/** Whether something has passed between processes by way of PMIx, where the own ranks may have met the spawned ones. */
class Border {
 public:
  void crossed() { ++crossings_; }
  void wave_begins(WaveNumber wave) { begun_ = {wave, crossings_}; }
  void committed(WaveNumber wave);
  /** Later waves count no more. */
  void taken_back_to(WaveNumber wave) { saved_.erase(saved_.upper_bound(wave), saved_.end()); }
  /** @return false also if that is not known, as for a wave of an earlier crrun */
  bool quiet_since(WaveNumber wave) const;

 private:
  static constexpr std::size_t kWaves = 3;  ///< as many as a rank's transport knows (CRTCP_SAVED), but for one that is being taken
  std::uint64_t crossings_ = 0;
  std::pair<WaveNumber, std::uint64_t> begun_;  ///< a wave, and crossings when it began
  std::map<WaveNumber, std::uint64_t> saved_;   ///< the same of the newest that were committed
};

/** What the choice depends on. */
struct DomainFacts {
  CauseKind cause;
  bool running;                     ///< no other recovery was under way
  const PlacementTable& placement;  ///< of the job's own ranks, before
  const RecoveryPlan& plan;
  const Store& store;
  const Spawns& spawns;             ///< before
  bool ended;                       ///< an own rank has ended
  bool pinned;                      ///< or ranks wait for a wave that is to be
  bool draining;
  bool collective;                  ///< of PMIx is under way, with own ranks
  bool link_broken;                 ///< messages were lost with a connection
  bool quiet;                       ///< Border::quiet_since() the plan's wave
};

struct DomainChoice {
  Domain domain = Domain::all;
  std::string why_all;  ///< why it is not the smaller one; "": there are no spawned processes, or it is no loss of some
};
DomainChoice choose_domain(const DomainFacts& facts);

}  // namespace reprise::job
