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

void put(nlohmann::json& json, const Facts& facts) {
  json["id"] = facts.id;
  json["phase"] = facts.phase;
  json["recovery"] = facts.recovery;
  json["next_wave"] = facts.next_wave;
  json["next_family"] = facts.next_family;
  json["next_number"] = facts.next_number;
  json["next_context"] = facts.next_context;
  json["spawned"] = facts.spawned;
  json["lost"] = facts.lost;
  json["draining"] = facts.draining;
  json["spares"] = facts.spares;
  json["exit_code"] = facts.exit_code;
}

void get(const nlohmann::json& json, Facts& facts) {
  facts.id = json.at("id");
  facts.phase = json.at("phase");
  facts.recovery = json.at("recovery");
  facts.next_wave = json.at("next_wave");
  facts.next_family = json.value("next_family", facts.next_family);
  facts.next_number = json.value("next_number", facts.next_number);
  facts.next_context = json.value("next_context", facts.next_context);
  facts.spawned = json.value("spawned", false);
  facts.lost = json.at("lost").get<std::set<NodeIndex>>();
  facts.draining = json.at("draining").get<std::set<NodeIndex>>();
  facts.spares = json.at("spares").get<std::set<NodeIndex>>();
  facts.exit_code = json.at("exit_code");
}

void put(nlohmann::json& json, const Layout& layout) {
  json["placement"] = layout.placement;
  json["incarnation"] = layout.incarnation;
}

void get(const nlohmann::json& json, Layout& layout, std::size_t ranks) {
  layout.placement = json.at("placement").get<PlacementTable>();
  layout.incarnation = json.at("incarnation").get<std::vector<RecoveryNumber>>();
  if ((!layout.placement.empty() && layout.placement.size() != ranks) || layout.incarnation.size() != ranks)
    throw std::runtime_error("the job's state does not have " + std::to_string(ranks) + " ranks");
}

/** nlohmann's exceptions, in the user's words. */
template <typename Read>
auto readable(Read read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(std::string("the job's state is damaged: ") + error.what());
  }
}

}  // namespace

void update(State& state, const Record& record) {
  if (const auto* whole = std::get_if<State>(&record)) state = *whole;
  if (const auto* facts = std::get_if<Facts>(&record)) static_cast<Facts&>(state) = *facts;
  if (const auto* layout = std::get_if<Layout>(&record)) static_cast<Layout&>(state) = *layout;
  if (const auto* change = std::get_if<StoreChange>(&record)) update(state.waves, *change);
}

nlohmann::json to_json(const State& state) {
  nlohmann::json waves = nlohmann::json::array();
  for (const auto& [number, wave] : state.waves) waves.push_back(wave_json(wave));
  nlohmann::json json{{"version", kVersion}, {"waves", std::move(waves)}};
  put(json, static_cast<const Facts&>(state));
  put(json, static_cast<const Layout&>(state));
  return json;
}

State state_from_json(const nlohmann::json& json, std::size_t ranks) {
  return readable([&] {
    if (json.at("version") != kVersion)
      throw std::runtime_error("the job's state is of version " + json.at("version").dump() + ", this program knows version " +
                               std::to_string(kVersion));
    State out;
    get(json, static_cast<Facts&>(out));
    get(json, static_cast<Layout&>(out), ranks);
    for (const auto& wave : json.at("waves")) {
      StoredWave stored = wave_from(wave, ranks);
      out.waves[stored.wave] = std::move(stored);
    }
    return out;
  });
}

nlohmann::json to_json(const Record& record) {
  nlohmann::json json;
  const auto store = [&](const auto& change) {
    using T = std::decay_t<decltype(change)>;
    if constexpr (std::is_same_v<T, StoredWave>) json = {{"wave", wave_json(change)}};
    if constexpr (std::is_same_v<T, RanksStaged>) json = {{"staged", change.wave}, {"ranks", change.ranks}};
    if constexpr (std::is_same_v<T, ImagesLost>) json = {{"images_lost", change.node}};
    if constexpr (std::is_same_v<T, ImageDamaged>) json = {{"damaged", change.wave}, {"rank", change.rank}};
    if constexpr (std::is_same_v<T, WavesDropped>) json = {{"dropped", change.waves}};
  };
  if (const auto* whole = std::get_if<State>(&record)) json = {{"state", to_json(*whole)}};
  if (const auto* facts = std::get_if<Facts>(&record)) put(json["facts"], *facts);
  if (const auto* layout = std::get_if<Layout>(&record)) put(json["layout"], *layout);
  if (const auto* change = std::get_if<StoreChange>(&record)) std::visit(store, *change);
  return json;
}

Record record_from_json(const nlohmann::json& json, std::size_t ranks) {
  return readable([&]() -> Record {
    if (json.contains("state")) return state_from_json(json.at("state"), ranks);
    if (json.contains("facts")) {
      Facts facts;
      get(json.at("facts"), facts);
      return facts;
    }
    if (json.contains("layout")) {
      Layout layout;
      get(json.at("layout"), layout, ranks);
      return layout;
    }
    if (json.contains("wave")) return StoreChange(wave_from(json.at("wave"), ranks));
    if (json.contains("staged")) return StoreChange(RanksStaged{json.at("staged"), json.at("ranks").get<std::vector<Rank>>()});
    if (json.contains("images_lost")) return StoreChange(ImagesLost{json.at("images_lost")});
    if (json.contains("damaged")) return StoreChange(ImageDamaged{json.at("damaged"), json.at("rank")});
    if (json.contains("dropped")) return StoreChange(WavesDropped{json.at("dropped").get<std::vector<WaveNumber>>()});
    throw std::runtime_error("the job's state has a record that this program does not know");
  });
}

}  // namespace reprise::job
