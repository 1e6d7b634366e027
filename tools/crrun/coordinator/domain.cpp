// SPDX-License-Identifier: GPL-2.0-only
#include "domain.h"

#include <algorithm>

namespace reprise::job {

const char* name(Domain domain) { return domain == Domain::spawned ? "spawned" : "all"; }

void Border::committed(WaveNumber wave) {
  if (begun_.first != wave) return;
  saved_.insert(begun_);
  if (saved_.size() > kWaves) saved_.erase(saved_.begin());
}

bool Border::quiet_since(WaveNumber wave) const {
  const auto found = saved_.find(wave);
  return found != saved_.end() && found->second == crossings_;
}

namespace {

bool is_loss(CauseKind cause) {
  return cause == CauseKind::node_lost || cause == CauseKind::new_daemon || cause == CauseKind::rank_died;
}

/** The namespaces that run are those of the wave, and none has come and gone since. */
bool are_those_of(const StoredWave& wave, const Spawns& spawns) {
  for (const StoredFamily& stored : wave.families) {
    const Family* family = spawns.find(stored.first);
    if (!family || !family->lives()) return false;
  }
  return std::all_of(spawns.all().begin(), spawns.all().end(), [&](const auto& one) {
    const Family& family = one.second;
    return wave.find(one.first) || family.voided || (!family.lives() && family.wave < wave.wave);
  });
}

/** @return "": only the spawned processes need to go back, as far as crrun knows */
std::string why_all(const DomainFacts& facts, const StoredWave* wave) {
  if (!facts.running) return "another recovery was not over";
  if (!wave) return "no wave is completely available";
  const std::string number = std::to_string(wave->wave);
  if (facts.placement != facts.plan.placement || std::any_of(facts.plan.restart.begin(), facts.plan.restart.end(), [&](Rank rank) {
        return rank < facts.placement.size();
      }))
    return "ranks of the job itself were lost, too, or have moved since wave " + number;
  if (facts.ended) return "a rank of the job itself has ended";
  if (!are_those_of(*wave, facts.spawns)) return "other spawned processes run than in wave " + number;
  if (facts.pinned) return "the program has asked for a wave to which all go back";
  if (facts.draining) return "a node is being drained";
  if (facts.link_broken) return "messages were lost with a connection";
  if (facts.collective) return "ranks of the job itself wait in a PMIx operation";
  if (!facts.quiet) return "processes may have met by PMIx since wave " + number + ", or that wave is old, or an earlier crrun's";
  return "";
}

}  // namespace

DomainChoice choose_domain(const DomainFacts& facts) {
  const StoredWave* const wave = facts.store.find(facts.plan.wave);
  if (!is_loss(facts.cause) || (!facts.spawns.any_live() && (!wave || wave->families.empty()))) return {};
  std::string why = why_all(facts, wave);
  const Domain domain = why.empty() ? Domain::spawned : Domain::all;
  return {domain, std::move(why)};
}

}  // namespace reprise::job
