// SPDX-License-Identifier: GPL-2.0-only
#include "state.h"

#include <stdexcept>

namespace reprise::job {

namespace {

constexpr int kVersion = 1;

nlohmann::json wave_json(const StoredWave& wave) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const StoredRank& rank : wave.ranks)
    ranks.push_back({{"node", rank.node},
                     {"local", rank.local},
                     {"staged", rank.staged},
                     {"bytes", rank.bytes},
                     {"checksum", rank.checksum},
                     {"offsets", {rank.offsets[0], rank.offsets[1], rank.offsets[2]}}});
  return {{"wave", wave.wave}, {"recovery", wave.recovery}, {"unix_ns", wave.unix_ns}, {"ranks", ranks}};
}

StoredWave wave_from(const nlohmann::json& json, std::size_t ranks) {
  StoredWave out;
  out.wave = json.at("wave");
  out.recovery = json.at("recovery");
  out.unix_ns = json.at("unix_ns");
  for (const auto& one : json.at("ranks")) {
    StoredRank rank;
    rank.node = one.at("node");
    rank.local = one.at("local");
    rank.staged = one.at("staged");
    rank.bytes = one.at("bytes");
    rank.checksum = one.at("checksum");
    for (std::size_t i = 0; i < 3; ++i) rank.offsets[i] = one.at("offsets").at(i);
    out.ranks.push_back(rank);
  }
  if (out.ranks.size() != ranks) throw std::runtime_error("wave " + std::to_string(out.wave) + " is of another job");
  return out;
}

}  // namespace

nlohmann::json to_json(const State& state) {
  nlohmann::json waves = nlohmann::json::array();
  for (const auto& [number, wave] : state.waves) waves.push_back(wave_json(wave));
  return {{"version", kVersion},
          {"id", state.id},
          {"phase", state.phase},
          {"recovery", state.recovery},
          {"next_wave", state.next_wave},
          {"next_family", state.next_family},
          {"next_number", state.next_number},
          {"next_context", state.next_context},
          {"spawned", state.spawned},
          {"placement", state.placement},
          {"incarnation", state.incarnation},
          {"lost", state.lost},
          {"draining", state.draining},
          {"spares", state.spares},
          {"waves", waves},
          {"exit_code", state.exit_code}};
}

State state_from_json(const nlohmann::json& json, std::size_t ranks) {
  State out;
  try {
    if (json.at("version") != kVersion)
      throw std::runtime_error("it is of version " + json.at("version").dump() + ", this program knows version " +
                               std::to_string(kVersion));
    out.id = json.at("id");
    out.phase = json.at("phase");
    out.recovery = json.at("recovery");
    out.next_wave = json.at("next_wave");
    out.next_family = json.value("next_family", out.next_family);
    out.next_number = json.value("next_number", out.next_number);
    out.next_context = json.value("next_context", out.next_context);
    out.spawned = json.value("spawned", false);
    out.placement = json.at("placement").get<PlacementTable>();
    out.incarnation = json.at("incarnation").get<std::vector<RecoveryNumber>>();
    out.lost = json.at("lost").get<std::set<NodeIndex>>();
    out.draining = json.at("draining").get<std::set<NodeIndex>>();
    out.spares = json.at("spares").get<std::set<NodeIndex>>();
    out.exit_code = json.at("exit_code");
    for (const auto& wave : json.at("waves")) {
      StoredWave stored = wave_from(wave, ranks);
      out.waves[stored.wave] = std::move(stored);
    }
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(std::string("the job's state is damaged: ") + error.what());
  }
  if ((!out.placement.empty() && out.placement.size() != ranks) || out.incarnation.size() != ranks)
    throw std::runtime_error("the job's state does not have " + std::to_string(ranks) + " ranks");
  return out;
}

}  // namespace reprise::job
