// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The state that must outlive crrun: state.json. */
#include <map>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "store.h"
#include "types.h"

namespace reprise::job {

struct State {
  std::string id;
  std::string phase;  ///< "starting", "running", "recovering", "ended"
  RecoveryNumber recovery = 0;
  WaveNumber next_wave = 1;
  std::uint32_t next_family = 1;   ///< index of the next spawned namespace
  Rank next_number = 0;            ///< number of the next spawned process
  std::uint64_t next_context = 1;  ///< id of the next group context
  bool spawned = false;            ///< spawned processes run
  PlacementTable placement;
  std::vector<RecoveryNumber> incarnation;  ///< by rank
  std::set<NodeIndex> lost, draining, spares;
  std::map<WaveNumber, StoredWave> waves;
  int exit_code = 0;
};

nlohmann::json to_json(const State& state);
/** Throws std::runtime_error when @p json is not the state of a job with @p ranks ranks. */
State state_from_json(const nlohmann::json& json, std::size_t ranks);

}  // namespace reprise::job
