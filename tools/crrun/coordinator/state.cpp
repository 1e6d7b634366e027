// SPDX-License-Identifier: GPL-2.0-only
#include "state.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "job/message_json.h"

namespace reprise::job {

namespace {

constexpr int kVersion = 2;
/** Of one namespace: more are a damaged state. */
constexpr Rank kMostSpawned = 10'000'000;

// Waves are large: each field of all ranks is one array, and only its value where all ranks have the same.

template <class Get>
nlohmann::json column(const std::vector<StoredRank>& ranks, Get get) {
  nlohmann::json::array_t out;
  out.reserve(ranks.size());
  bool same = true;
  for (const StoredRank& rank : ranks) {
    out.emplace_back(get(rank));
    same &= get(rank) == get(ranks.front());
  }
  if (same && !out.empty()) return out.front();
  return out;
}

template <class Set>
void read_column(const nlohmann::json& json, std::vector<StoredRank>& ranks, Set set) {
  if (json.is_array() && json.size() != ranks.size()) throw std::runtime_error("the job's state has a wave of another job");
  for (std::size_t i = 0; i < ranks.size(); ++i) set(ranks[i], json.is_array() ? json[i] : json);
}

/** Ranks for which @p is holds, as first, last, first, last … */
template <class Is>
nlohmann::json ranges(const std::vector<StoredRank>& ranks, Is is) {
  nlohmann::json out = nlohmann::json::array();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!is(ranks[i])) continue;
    if (i == 0 || !is(ranks[i - 1])) out.push_back(i);
    if (i + 1 == ranks.size() || !is(ranks[i + 1])) out.push_back(i);
  }
  return out;
}

template <class Set>
void read_ranges(const nlohmann::json& json, std::vector<StoredRank>& ranks, Set set) {
  const auto ends = json.get<std::vector<std::size_t>>();
  for (std::size_t i = 0; i + 1 < ends.size(); i += 2) {
    if (ends[i] > ends[i + 1] || ends[i + 1] >= ranks.size())
      throw std::runtime_error("the job's state has a wave of another job");
    for (std::size_t rank = ends[i]; rank <= ends[i + 1]; ++rank) set(ranks[rank]);
  }
}

nlohmann::json family_json(const StoredFamily& family) {
  nlohmann::json apps = nlohmann::json::array();
  for (const SpawnApp& app : family.apps) apps.push_back(message_json(app));
  return {{"index", family.index}, {"first", family.first}, {"count", family.count}, {"parent", family.parent}, {"apps", std::move(apps)}};
}

StoredFamily family_from(const nlohmann::json& json) {
  StoredFamily out{json.at("index"), json.at("first"), json.at("count"), json.at("parent"), {}};
  for (const auto& app : json.at("apps")) out.apps.push_back(message_from<SpawnApp>(app));
  return out;
}

/** Copies by node: few nodes have any of a wave's images, and each has those of neighbouring ranks. */
nlohmann::json copies_json(const std::vector<StoredRank>& ranks) {
  std::map<NodeIndex, nlohmann::json> by_node;
  const auto has = [&](std::size_t place, NodeIndex node) {
    const auto& copies = ranks[place].copies;
    return std::binary_search(copies.begin(), copies.end(), node);
  };
  for (std::size_t place = 0; place < ranks.size(); ++place)
    for (NodeIndex node : ranks[place].copies) {
      nlohmann::json& ends = by_node[node];
      if (place == 0 || !has(place - 1, node)) ends.push_back(place);
      if (place + 1 == ranks.size() || !has(place + 1, node)) ends.push_back(place);
    }
  nlohmann::json out = nlohmann::json::array();
  for (auto& [node, ends] : by_node) out.push_back({{"node", node}, {"of", std::move(ends)}});
  return out;
}

nlohmann::json set_json(const StoredSet& set) {
  nlohmann::json out = nlohmann::json::array();
  for (const StoredSet::Member& member : set.members)
    out.push_back({{"node", member.node}, {"ranks", member.ranks}, {"parity", member.parity}});
  return out;
}

StoredSet set_from(const nlohmann::json& json) {
  StoredSet out;
  for (const auto& member : json)
    out.members.push_back({member.at("node"), member.at("ranks").get<std::vector<Rank>>(), member.at("parity").get<bool>()});
  return out;
}

nlohmann::json wave_json(const StoredWave& wave) {
  nlohmann::json sets = nlohmann::json::array();
  for (const StoredSet& set : wave.sets) sets.push_back(set_json(set));
  nlohmann::json offsets = nlohmann::json::array();
  for (std::size_t i = 0; i < 3; ++i)
    offsets.push_back(column(wave.ranks, [i](const StoredRank& rank) { return rank.offsets[i]; }));
  nlohmann::json families = nlohmann::json::array();
  for (const StoredFamily& family : wave.families) families.push_back(family_json(family));
  return {{"wave", wave.wave},
          {"recovery", wave.recovery},
          {"families", std::move(families)},
          {"unix_ns", wave.unix_ns},
          {"pinned", wave.pinned},
          {"of", wave.ranks.size()},
          {"node", column(wave.ranks, [](const StoredRank& rank) { return rank.node; })},
          {"bytes", column(wave.ranks, [](const StoredRank& rank) { return rank.bytes; })},
          {"checksum", column(wave.ranks, [](const StoredRank& rank) { return rank.checksum; })},
          {"offsets", std::move(offsets)},
          {"not_local", ranges(wave.ranks, [](const StoredRank& rank) { return !rank.local; })},
          {"staged", ranges(wave.ranks, [](const StoredRank& rank) { return rank.staged; })},
          {"copies", copies_json(wave.ranks)},
          {"sets", std::move(sets)}};
}

StoredWave wave_from(const nlohmann::json& json, std::size_t ranks) {
  std::size_t all = ranks;
  StoredWave out;
  out.wave = json.at("wave");
  out.recovery = json.at("recovery");
  out.unix_ns = json.at("unix_ns");
  out.pinned = json.value("pinned", false);
  for (const auto& family : json.value("families", nlohmann::json::array())) {
    out.families.push_back(family_from(family));
    // Numbers increase, and none is used twice.
    const StoredFamily* before = out.families.size() > 1 ? &out.families[out.families.size() - 2] : nullptr;
    const std::uint64_t least = before ? std::uint64_t{before->first} + before->count : ranks;
    const StoredFamily& last = out.families.back();
    if (last.first < least || last.count == 0 || last.count > kMostSpawned)
      throw std::runtime_error("wave " + std::to_string(out.wave) + " has impossible spawned processes");
    all += last.count;
  }
  if (json.at("of") != all) throw std::runtime_error("wave " + std::to_string(out.wave) + " is of another job");
  out.ranks.resize(all);
  read_column(json.at("node"), out.ranks, [](StoredRank& rank, const auto& value) { rank.node = value; });
  read_column(json.at("bytes"), out.ranks, [](StoredRank& rank, const auto& value) { rank.bytes = value; });
  read_column(json.at("checksum"), out.ranks, [](StoredRank& rank, const auto& value) { rank.checksum = value; });
  for (std::size_t i = 0; i < 3; ++i)
    read_column(json.at("offsets").at(i), out.ranks, [i](StoredRank& rank, const auto& value) { rank.offsets[i] = value; });
  read_ranges(json.at("not_local"), out.ranks, [](StoredRank& rank) { rank.local = false; });
  read_ranges(json.at("staged"), out.ranks, [](StoredRank& rank) { rank.staged = true; });
  for (const auto& set : json.value("sets", nlohmann::json::array())) out.sets.push_back(set_from(set));
  std::map<NodeIndex, nlohmann::json> copies;  // in order
  for (const auto& one : json.value("copies", nlohmann::json::array())) copies[one.at("node")] = one.at("of");
  for (const auto& [node, of] : copies)
    read_ranges(of, out.ranks, [node = node](StoredRank& rank) {
      if (rank.copies.empty() || rank.copies.back() != node) rank.copies.push_back(node);
    });
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
  json["failed"] = facts.failed;
  json["pinned"] = facts.pinned;
  json["pin_refused"] = facts.pin_refused;
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
  facts.failed = json.value("failed", facts.failed);
  facts.pinned = json.value("pinned", facts.pinned);
  facts.pin_refused = json.value("pin_refused", facts.pin_refused);
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

/** One list for reading and writing. */
template <class L, class F>
void each_of(L& learned, F&& field) {
  field("waves", learned.waves);
  field("cost_us", learned.cost_us);
  field("last_cost_us", learned.last_cost_us);
  field("whole_ms", learned.whole_ms);
  field("staged", learned.staged);
  field("staging_ms", learned.staging_ms);
  field("recoveries", learned.recoveries);
  field("recovery_ms", learned.recovery_ms);
  field("failures", learned.failures);
  field("node_ms", learned.node_ms);
}

nlohmann::json learned_json(const Learned& learned) {
  nlohmann::json out;
  each_of(learned, [&out](const char* name, std::uint64_t value) { out[name] = value; });
  return out;
}

Learned learned_from(const nlohmann::json& json) {
  Learned out;
  each_of(out, [&json](const char* name, std::uint64_t& value) { value = json.at(name); });
  return out;
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
  if (const auto* learned = std::get_if<Learned>(&record)) state.learned = *learned;
}

nlohmann::json to_json(const State& state) {
  nlohmann::json waves = nlohmann::json::array();
  for (const auto& [number, wave] : state.waves) waves.push_back(wave_json(wave));
  nlohmann::json json{{"version", kVersion}, {"waves", std::move(waves)}, {"learned", learned_json(state.learned)}};
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
    if (json.contains("learned")) out.learned = learned_from(json.at("learned"));
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
    if constexpr (std::is_same_v<T, ImagesFound>) json = {{"found", change.wave}, {"node", change.node}, {"ranks", change.ranks}};
    if constexpr (std::is_same_v<T, ImageDamaged>) {
      json = {{"damaged", change.wave}, {"rank", change.rank}};
      if (change.node) json["node"] = *change.node;
    }
    if constexpr (std::is_same_v<T, SetFormed>) json = {{"set", change.wave}, {"members", set_json(change.set)}};
    if constexpr (std::is_same_v<T, ParityKept>) json = {{"parity", change.wave}, {"node", change.node}};
    if constexpr (std::is_same_v<T, WavesDropped>) json = {{"dropped", change.waves}};
  };
  if (const auto* whole = std::get_if<State>(&record)) json = {{"state", to_json(*whole)}};
  if (const auto* facts = std::get_if<Facts>(&record)) put(json["facts"], *facts);
  if (const auto* layout = std::get_if<Layout>(&record)) put(json["layout"], *layout);
  if (const auto* change = std::get_if<StoreChange>(&record)) std::visit(store, *change);
  if (const auto* learned = std::get_if<Learned>(&record)) json["learned"] = learned_json(*learned);
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
    if (json.contains("learned")) return learned_from(json.at("learned"));
    if (json.contains("wave")) return StoreChange(wave_from(json.at("wave"), ranks));
    if (json.contains("staged")) return StoreChange(RanksStaged{json.at("staged"), json.at("ranks").get<std::vector<Rank>>()});
    if (json.contains("images_lost")) return StoreChange(ImagesLost{json.at("images_lost")});
    if (json.contains("found"))
      return StoreChange(ImagesFound{json.at("found"), json.at("node"), json.at("ranks").get<std::vector<Rank>>()});
    if (json.contains("damaged")) {
      ImageDamaged damaged{json.at("damaged"), json.at("rank")};
      if (json.contains("node")) damaged.node = json.at("node").get<NodeIndex>();
      return StoreChange(damaged);
    }
    if (json.contains("set")) return StoreChange(SetFormed{json.at("set"), set_from(json.at("members"))});
    if (json.contains("parity")) return StoreChange(ParityKept{json.at("parity"), json.at("node")});
    if (json.contains("dropped")) return StoreChange(WavesDropped{json.at("dropped").get<std::vector<WaveNumber>>()});
    throw std::runtime_error("the job's state has a record that this program does not know");
  });
}

}  // namespace reprise::job
