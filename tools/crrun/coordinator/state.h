// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The state that must outlive crrun, and the records of its changes: state.json and state.log. */
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "interval.h"
#include "store.h"
#include "types.h"

namespace reprise::job {

/** What is small: a record has all of it. */
struct Facts {
  std::string id;
  std::string phase;  ///< "starting", "running", "recovering", "ended"
  RecoveryNumber recovery = 0;
  WaveNumber next_wave = 1;
  std::uint32_t next_family = 1;   ///< index of the next spawned namespace
  Rank next_number = 0;            ///< number of the next spawned process
  std::uint64_t next_context = 1;  ///< id of the next group context
  bool spawned = false;            ///< spawned processes run
  std::set<NodeIndex> lost, draining, spares;
  std::set<Rank> failed;           ///< the program has been told of them
  WaveNumber pinned = 0;           ///< all recoveries go back to this wave; 0: to the newest one
  bool pin_refused = false;        ///< ranks that have asked for a wave to be pinned were told that there is none
  int exit_code = 0;
  bool operator==(const Facts&) const = default;
};

/** Where the ranks are. */
struct Layout {
  PlacementTable placement;
  std::vector<RecoveryNumber> incarnation;  ///< by rank
  bool operator==(const Layout&) const = default;
};

struct State : Facts, Layout {
  StoredWaves waves;
  Learned learned;
  bool operator==(const State&) const = default;
};

/** A change of the state; a State as a record replaces everything. */
using Record = std::variant<State, Facts, Layout, StoreChange, Learned>;

void update(State& state, const Record& record);

nlohmann::json to_json(const State& state);
nlohmann::json to_json(const Record& record);
/** Throws std::runtime_error when @p json is not the state of a job with @p ranks ranks. */
State state_from_json(const nlohmann::json& json, std::size_t ranks);
/** Throws std::runtime_error when @p json is no record of a job with @p ranks ranks. */
Record record_from_json(const nlohmann::json& json, std::size_t ranks);

}  // namespace reprise::job
