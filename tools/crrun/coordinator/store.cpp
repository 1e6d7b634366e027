// SPDX-License-Identifier: GPL-2.0-only
#include "store.h"

#include <algorithm>
#include <limits>

namespace reprise::job {

namespace {
constexpr std::uint64_t kStageAgainMs = 30'000;

std::string file(const std::string& directory, WaveNumber wave, Rank rank) {
  return directory + "/wave-" + std::to_string(wave) + "/rank-" + std::to_string(rank) + ".img";
}
}  // namespace

bool StoredFamily::operator==(const StoredFamily& other) const {
  return index == other.index && first == other.first && count == other.count && parent == other.parent &&
         std::equal(apps.begin(), apps.end(), other.apps.begin(), other.apps.end(),
                    [](const SpawnApp& a, const SpawnApp& b) { return a.SerializeAsString() == b.SerializeAsString(); });
}

std::size_t StoredWave::own() const {
  std::size_t out = ranks.size();
  for (const StoredFamily& family : families) out -= family.count;
  return out;
}

Roster StoredWave::roster() const {
  Roster out(static_cast<Rank>(own()));
  for (const StoredFamily& family : families) out.add(family.first, family.count);
  return out;
}

StoredRank* StoredWave::find(Rank number) {
  if (number < own()) return &ranks[number];
  const auto place = roster().place(number);
  return place ? &ranks[*place] : nullptr;
}

bool StoredWave::staged() const {
  return std::all_of(ranks.begin(), ranks.end(), [](const StoredRank& rank) { return rank.staged; });
}

namespace {

const StoredSet::Member* member_of(const StoredSet& set, Rank rank) {
  for (const StoredSet::Member& member : set.members)
    if (std::find(member.ranks.begin(), member.ranks.end(), rank) != member.ranks.end()) return &member;
  return nullptr;
}

/** Whether a member has its images and its part of the parity. */
bool intact(const StoredWave& wave, const StoredSet::Member& member) {
  return member.parity && std::all_of(member.ranks.begin(), member.ranks.end(), [&](Rank rank) {
           const StoredRank* image = wave.find(rank);
           return image && image->on(member.node);
         });
}

bool intact(const StoredWave& wave, const StoredSet& set) {
  return std::all_of(set.members.begin(), set.members.end(), [&](const auto& member) { return intact(wave, member); });
}

}  // namespace

const StoredSet* StoredWave::rebuilding(Rank rank, const std::function<bool(NodeIndex)>& serves) const {
  for (const StoredSet& set : sets) {
    const StoredSet::Member* lost = member_of(set, rank);
    if (!lost) continue;
    const bool others = std::all_of(set.members.begin(), set.members.end(), [&](const StoredSet::Member& member) {
      return &member == lost || (intact(*this, member) && serves(member.node));
    });
    return others ? &set : nullptr;
  }
  return nullptr;
}

bool StoredWave::safe(Rank rank) const {
  const StoredRank* image = find(rank);
  if (!image || image->doubled()) return image;
  return std::any_of(sets.begin(), sets.end(), [&](const StoredSet& set) { return member_of(set, rank) && intact(*this, set); });
}

std::size_t StoredWave::unsafe() const {
  std::set<Rank> covered;
  for (const StoredSet& set : sets)
    if (intact(*this, set))
      for (const StoredSet::Member& member : set.members) covered.insert(member.ranks.begin(), member.ranks.end());
  std::size_t out = 0;
  const Roster all = roster();
  for (std::size_t place = 0; place < ranks.size(); ++place)
    out += !ranks[place].doubled() && (covered.empty() || !covered.count(all.number(place)));
  return out;
}

std::uint64_t StoredWave::bytes() const {
  std::uint64_t sum = 0;
  for (const StoredRank& rank : ranks) sum += rank.bytes;
  return sum;
}

StoredImage stored_image(const StoredWave& wave, Rank rank) {
  const StoredRank& image = *wave.find(rank);
  StoredImage out;
  out.set_wave(wave.wave);
  out.set_rank(rank);
  out.set_bytes(image.bytes);
  out.set_checksum(image.checksum);
  out.set_committed(true);
  return out;
}

Store::Store(std::string job_directory, std::string local_directory)
    : job_directory_(std::move(job_directory)), local_directory_(std::move(local_directory)) {}

namespace {

void add_copy(StoredRank& image, NodeIndex node) {
  const auto at = std::lower_bound(image.copies.begin(), image.copies.end(), node);
  if (at == image.copies.end() || *at != node) image.copies.insert(at, node);
}

void lose(StoredRank& image, NodeIndex node) {
  if (image.node == node) image.local = false;
  std::erase(image.copies, node);
}

void found_on(StoredRank& image, NodeIndex node) {
  if (image.local && image.node != node) return add_copy(image, node);
  image.node = node;
  image.local = true;
  std::erase(image.copies, node);
}

/** @return whether it was computed from what others have, or read from them */
bool damaged_for(StoredRank& image, std::optional<NodeIndex> node) {
  const bool nothing_nearer = !node || (!image.on(*node) && !image.staged);
  if (nothing_nearer) {
    image.local = false;
    image.copies.clear();
  } else {
    lose(image, *node);
  }
  image.staged = false;
  return nothing_nearer;
}

void form(StoredWave& wave, const StoredSet& fresh) {
  std::erase_if(wave.sets, [&](const StoredSet& set) {
    return std::any_of(set.members.begin(), set.members.end(), [&](const auto& old) {
      return std::any_of(fresh.members.begin(), fresh.members.end(), [&](const auto& member) { return member.node == old.node; });
    });
  });
  wave.sets.push_back(fresh);
}

}  // namespace

void update(StoredWaves& waves, const StoreChange& change) {
  const auto rank_of = [&](WaveNumber wave, Rank rank) -> StoredRank* {
    const auto found = waves.find(wave);
    return found == waves.end() ? nullptr : found->second.find(rank);
  };
  if (const auto* wave = std::get_if<StoredWave>(&change)) waves[wave->wave] = *wave;
  if (const auto* staged = std::get_if<RanksStaged>(&change)) {
    for (Rank rank : staged->ranks)
      if (StoredRank* one = rank_of(staged->wave, rank)) one->staged = true;
  }
  if (const auto* lost = std::get_if<ImagesLost>(&change)) {
    for (auto& [number, wave] : waves) {
      for (StoredRank& rank : wave.ranks) lose(rank, lost->node);
      for (StoredSet& set : wave.sets)
        for (StoredSet::Member& member : set.members) member.parity &= member.node != lost->node;
    }
  }
  if (const auto* found = std::get_if<ImagesFound>(&change)) {
    for (Rank rank : found->ranks)
      if (StoredRank* one = rank_of(found->wave, rank)) found_on(*one, found->node);
  }
  if (const auto* damaged = std::get_if<ImageDamaged>(&change))
    if (StoredRank* one = rank_of(damaged->wave, damaged->rank); one && damaged_for(*one, damaged->node))
      std::erase_if(waves.at(damaged->wave).sets, [&](const StoredSet& set) { return member_of(set, damaged->rank); });
  if (const auto* formed = std::get_if<SetFormed>(&change))
    if (const auto found = waves.find(formed->wave); found != waves.end()) form(found->second, formed->set);
  if (const auto* kept = std::get_if<ParityKept>(&change))
    if (const auto found = waves.find(kept->wave); found != waves.end())
      for (StoredSet& set : found->second.sets)
        for (StoredSet::Member& member : set.members) member.parity |= member.node == kept->node;
  if (const auto* dropped = std::get_if<WavesDropped>(&change))
    for (WaveNumber wave : dropped->waves) waves.erase(wave);
}

void Store::change(StoreChange change) {
  // One message names few of many ranks: count these only.
  const auto named = [&]() -> std::size_t {
    const auto* staged = std::get_if<RanksStaged>(&change);
    const auto* found = std::get_if<ImagesFound>(&change);
    const StoredWave* wave = staged ? find(staged->wave) : found ? find(found->wave) : nullptr;
    if (!wave) return 0;
    const std::vector<Rank>& all = staged ? staged->ranks : found->ranks;
    const std::set<Rank> ranks(all.begin(), all.end());
    return static_cast<std::size_t>(std::count_if(ranks.begin(), ranks.end(), [&](Rank rank) {
      const StoredRank* image = wave->find(rank);
      return image && !image->doubled();
    }));
  };
  const auto only_copies = [&] {
    const auto* found = std::get_if<ImagesFound>(&change);
    const StoredWave* wave = found ? find(found->wave) : nullptr;
    return wave && std::all_of(found->ranks.begin(), found->ranks.end(), [&](Rank rank) {
             const StoredRank* image = wave->find(rank);
             return image && image->local;
           });
  };
  const std::size_t before = named();
  const bool parity = std::holds_alternative<SetFormed>(change) || std::holds_alternative<ParityKept>(change);
  if (!std::holds_alternative<RanksStaged>(change) && !parity && !only_copies()) ++version_;
  update(waves_, change);
  const auto count = [&](WaveNumber number) {
    const StoredWave* wave = find(number);
    if (!wave) return;
    unstaged_[number] = static_cast<std::size_t>(
        std::count_if(wave->ranks.begin(), wave->ranks.end(), [](const StoredRank& rank) { return !rank.staged; }));
    unsafe_[number] = wave->unsafe();
  };
  if (const auto* wave = std::get_if<StoredWave>(&change)) count(wave->wave);
  if (const auto* damaged = std::get_if<ImageDamaged>(&change)) count(damaged->wave);
  if (std::holds_alternative<ImagesLost>(change))
    for (const auto& [number, wave] : waves_) unsafe_[number] = wave.unsafe();
  const auto* staged = std::get_if<RanksStaged>(&change);
  const auto* found = std::get_if<ImagesFound>(&change);
  if (const auto* formed = std::get_if<SetFormed>(&change)) count(formed->wave);
  if (const auto* kept = std::get_if<ParityKept>(&change)) count(kept->wave);
  if (staged || found) {
    const StoredWave* wave = find(staged ? staged->wave : found->wave);
    if (wave && !wave->sets.empty())
      unsafe_[wave->wave] = wave->unsafe();
    else if (wave)
      unsafe_[wave->wave] -= before - named();
  }
  if (const auto* dropped = std::get_if<WavesDropped>(&change))
    for (WaveNumber wave : dropped->waves) unstaged_.erase(wave), unsafe_.erase(wave);
  auto* last = changes_.empty() ? nullptr : std::get_if<RanksStaged>(&changes_.back());
  if (last && staged && last->wave == staged->wave)
    last->ranks.insert(last->ranks.end(), staged->ranks.begin(), staged->ranks.end());
  else
    changes_.push_back(std::move(change));
}

void Store::commit(StoredWave wave) { change(std::move(wave)); }

void Store::node_lost(NodeIndex node) {
  if (!waves_.empty()) change(ImagesLost{node});
}

void Store::found(WaveNumber wave, NodeIndex node, std::vector<Rank> ranks) {
  change(ImagesFound{wave, node, std::move(ranks)});
}

bool Store::staged(WaveNumber wave, Rank rank) {
  const StoredWave* found = find(wave);
  const StoredRank* image = found ? found->find(rank) : nullptr;
  if (!image || image->staged) return false;
  change(RanksStaged{wave, {rank}});
  return --unstaged_.at(wave) == 0;
}

void Store::damaged(WaveNumber wave, Rank rank, NodeIndex node) { change(ImageDamaged{wave, rank, node}); }

bool Store::available(const StoredWave& wave, const PlacementTable& nodes, const Serves& serves) const {
  for (std::size_t place = 0; place < nodes.size(); ++place) {
    const StoredRank& image = wave.ranks.at(place);
    const bool elsewhere = (image.local && serves(image.node)) || std::any_of(image.copies.begin(), image.copies.end(), serves);
    if (image.staged || image.on(nodes[place]) || elsewhere) continue;
    if (!wave.rebuilding(wave.roster().number(place), serves)) return false;
  }
  return true;
}

ImagePlace Store::place(WaveNumber wave, Rank rank, NodeIndex node) const {
  ImagePlace out;
  out.set_rank(rank);
  const StoredRank& image = *waves_.at(wave).find(rank);
  if (image.on(node)) out.add_paths(file(local_directory_, wave, rank));
  if (image.staged) out.add_paths(file(job_directory_, wave, rank));
  out.set_bytes(image.bytes);
  out.set_checksum(image.checksum);
  return out;
}

std::vector<WaveNumber> Store::forget_after(WaveNumber wave) {
  std::vector<WaveNumber> out;
  for (auto at = waves_.upper_bound(wave); at != waves_.end(); ++at) out.push_back(at->first);
  if (!out.empty()) change(WavesDropped{out});
  return out;
}

std::set<WaveNumber> Store::keep(const std::set<WaveNumber>& others) const {
  std::set<WaveNumber> out;
  // Two of each kind: one may turn out to be damaged.
  constexpr unsigned kEach = 2;
  unsigned any = 0, safe = 0, staged = 0;
  for (auto wave = waves_.rbegin(); wave != waves_.rend(); ++wave) {
    const bool newest = any++ < kEach, one_of_safe = this->safe(wave->first) && safe++ < kEach,
               one_of_staged = wave->second.staged() && staged++ < kEach;
    if (newest || one_of_safe || one_of_staged || others.count(wave->first)) out.insert(wave->first);
  }
  return out;
}

std::vector<WaveNumber> Store::prune(const std::set<WaveNumber>& others) {
  const std::set<WaveNumber> kept = keep(others);
  std::vector<WaveNumber> out;
  for (const auto& [number, wave] : waves_)
    if (!kept.count(number)) out.push_back(number);
  if (!out.empty()) change(WavesDropped{out});
  return out;
}

const StoredWave* Store::find(WaveNumber wave) const {
  const auto found = waves_.find(wave);
  return found == waves_.end() ? nullptr : &found->second;
}

std::optional<WaveNumber> Store::newest() const {
  if (waves_.empty()) return std::nullopt;
  return waves_.rbegin()->first;
}

std::optional<WaveNumber> Store::newest_staged() const {
  for (auto wave = waves_.rbegin(); wave != waves_.rend(); ++wave)
    if (wave->second.staged()) return wave->first;
  return std::nullopt;
}

std::optional<WaveNumber> Store::newest_safe() const {
  for (auto wave = waves_.rbegin(); wave != waves_.rend(); ++wave)
    if (safe(wave->first)) return wave->first;
  return std::nullopt;
}

bool Store::safe(WaveNumber wave) const {
  const auto found = unsafe_.find(wave);
  return found != unsafe_.end() && found->second == 0;
}

std::size_t Store::to_stage() const {
  return static_cast<std::size_t>(std::count_if(unstaged_.begin(), unstaged_.end(), [](const auto& wave) { return wave.second > 0; }));
}

std::uint64_t Store::oldest_offset(Rank rank, std::uint32_t stream) const {
  if (waves_.empty()) return 0;
  const StoredRank* image = waves_.begin()->second.find(rank);
  return image ? image->offsets[stream] : 0;
}

/** See which wave to stage, and what is left of it. A large job has many ranks: only when something has changed. */
void Staging::look(const Store& store, const std::function<bool(NodeIndex)>& up) {
  // A node can contribute to a wave as long as it has an image that is not staged.
  const auto orders = [&](const StoredWave& wave) {
    std::map<NodeIndex, std::vector<Rank>> out;
    const Roster roster = wave.roster();
    for (std::size_t place = 0; place < wave.ranks.size(); ++place) {
      const StoredRank& image = wave.ranks[place];
      if (image.staged) continue;
      if (!image.local || !up(image.node)) return std::map<NodeIndex, std::vector<Rank>>{};  // cannot be completed
      out[image.node].push_back(roster.number(place));
    }
    return out;
  };
  seen_ = store.version();
  open_.clear();
  // Finish the wave that was begun: if waves come faster than they can be copied, none would ever be complete.
  if (const StoredWave* wave = wave_ < hurry_ ? nullptr : store.find(wave_)) open_ = orders(*wave);
  if (!open_.empty()) return;
  if (!busy_.empty() && !hurry_) {
    seen_.reset();
    return;
  }
  wave_ = 0;
  if (const auto newest = store.newest()) {
    open_ = orders(*store.find(*newest));
    if (!open_.empty()) wave_ = *newest;
  }
}

std::vector<Staging::Order> Staging::next(const Store& store, const std::function<bool(NodeIndex)>& up, Now now) {
  std::vector<Order> out;
  const auto choose = [&] {
    const StoredWave* wave = store.find(wave_);
    for (auto at = open_.begin(); wave && at != open_.end() && busy_.size() < at_once_;) {
      const auto here = at++;
      const NodeIndex node = here->first;
      if (busy_.count(node)) continue;
      std::erase_if(here->second, [&](Rank rank) { return wave->find(rank)->staged; });
      if (here->second.empty()) {
        open_.erase(here);
        continue;
      }
      if (const auto wait = not_before_ms_.find(node); wait != not_before_ms_.end() && now.ms < wait->second) continue;
      busy_.insert(node);
      out.push_back({wave_, node, here->second});
    }
  };
  if (seen_ != store.version()) look(store, up);
  const bool some = !open_.empty();
  choose();
  // The last images of the wave have arrived: a newer one may wait.
  if (some && open_.empty()) {
    look(store, up);
    choose();
  }
  return out;
}

void Staging::finished(NodeIndex node, bool well, Now now) {
  busy_.erase(node);
  if (well)
    not_before_ms_.erase(node);
  else
    not_before_ms_[node] = now.ms + kStageAgainMs;
}

void Staging::hurry(WaveNumber since) {
  hurry_ = since;
  at_once_ = std::numeric_limits<unsigned>::max();
  seen_.reset();
}

void Staging::reset() {
  busy_.clear();
  wave_ = 0;
  open_.clear();
  seen_.reset();
}

}  // namespace reprise::job
