// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The committed waves: where their images are, which wave is usable, which may be dropped. */
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "roster.h"
#include "types.h"

namespace reprise::job {

struct StoredRank {
  NodeIndex node = 0;   ///< where it was taken
  bool local = true;    ///< the image there still exists
  bool staged = false;  ///< a copy is in JOBDIR
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
  std::uint64_t offsets[3] = {0, 0, 0};  ///< in standard input, output and error
  std::vector<NodeIndex> copies = {};    ///< other nodes that have it, in order

  bool on(NodeIndex which) const { return (local && node == which) || std::find(copies.begin(), copies.end(), which) != copies.end(); }
  /** @return number of nodes that have it */
  std::size_t nodes() const { return copies.size() + local; }
  /** Whether the loss of any one node leaves an image, whatever others have parity of. */
  bool doubled() const { return staged || nodes() > 1; }
  bool operator==(const StoredRank&) const = default;
};

/** Nodes of which any one may be lost: the others have parity of its images of a wave. */
struct StoredSet {
  struct Member {
    NodeIndex node = 0;
    std::vector<Rank> ranks = {};  ///< whose images it had when the set was formed
    bool parity = false;           ///< it has its part of the parity
    bool operator==(const Member&) const = default;
  };
  std::vector<Member> members = {};  ///< in the order of the Protect
  bool operator==(const StoredSet&) const = default;
};

/** A namespace of spawned processes that are in a wave. */
struct StoredFamily {
  std::uint32_t index = 0;  ///< JOB@index
  Rank first = 0, count = 0, parent = 0;
  std::vector<SpawnApp> apps;
  bool operator==(const StoredFamily& other) const;
};

struct StoredWave {
  WaveNumber wave = 0;
  RecoveryNumber recovery = 0;  ///< recovery during which it was taken
  std::uint64_t unix_ns = 0;
  std::vector<StoredRank> ranks;  ///< by place in the roster
  std::vector<StoredFamily> families = {};
  std::vector<StoredSet> sets = {};  ///< no node is in two
  bool pinned = false;  ///< the ranks have asked for it, and wait in it, see pin.h

  std::size_t own() const;  ///< number of the job's own ranks
  Roster roster() const;
  StoredRank* find(Rank number);
  const StoredRank* find(Rank number) const { return const_cast<StoredWave*>(this)->find(number); }
  bool staged() const;
  /** @return the set from which others compute the image of a rank whose node has lost it; nothing: there is none */
  const StoredSet* rebuilding(Rank rank, const std::function<bool(NodeIndex)>& serves) const;
  /** Whether the loss of any one node leaves an image of the rank, or what it is computed from. */
  bool safe(Rank rank) const;
  /** @return number of ranks that are not safe */
  std::size_t unsafe() const;
  std::uint64_t bytes() const;
  bool operator==(const StoredWave&) const = default;
};

/** @return what identifies the image of a rank that is in the wave */
StoredImage stored_image(const StoredWave& wave, Rank rank);

using StoredWaves = std::map<WaveNumber, StoredWave>;
/** Whether a node is up, and hands its images out to other nodes. */
using Serves = std::function<bool(NodeIndex)>;

// Changes of the stored waves. A StoredWave as a change is the commit of that wave.
struct RanksStaged {
  WaveNumber wave = 0;
  std::vector<Rank> ranks;
};
/** The images that a node held are lost. */
struct ImagesLost {
  NodeIndex node = 0;
};
/** A node has intact images of these ranks: copies, unless they were taken there or are nowhere else. */
struct ImagesFound {
  WaveNumber wave = 0;
  NodeIndex node = 0;
  std::vector<Rank> ranks;
};
/**
 * What a node has read to restore a rank is not intact: its own image and the one in JOBDIR, or, if there was neither, those of all
 * other nodes. Without a node no image is.
 */
struct ImageDamaged {
  WaveNumber wave = 0;
  Rank rank = 0;
  std::optional<NodeIndex> node = std::nullopt;
};
/** These nodes form a set, and are in no other. Their parity is to be made. */
struct SetFormed {
  WaveNumber wave = 0;
  StoredSet set;
};
/** A node has its part of the parity of its set. */
struct ParityKept {
  WaveNumber wave = 0;
  NodeIndex node = 0;
};
struct WavesDropped {
  std::vector<WaveNumber> waves;
};
using StoreChange = std::variant<StoredWave, RanksStaged, ImagesLost, ImagesFound, ImageDamaged, SetFormed, ParityKept, WavesDropped>;

/** Carry out a change. What it names and what is not there (any more) does not matter. */
void update(StoredWaves& waves, const StoreChange& change);

class Store {
 public:
  /** @param job_directory where staged images are @param local_directory where a node's images are, the job's id included */
  Store(std::string job_directory, std::string local_directory);

  void commit(StoredWave wave);
  /** The images of a node are lost. */
  void node_lost(NodeIndex node);
  /** The node has images of these ranks. */
  void found(WaveNumber wave, NodeIndex node, std::vector<Rank> ranks);
  /** @return whether the wave is now completely staged, and was not before */
  bool staged(WaveNumber wave, Rank rank);
  void formed(WaveNumber wave, StoredSet set) { change(SetFormed{wave, std::move(set)}); }
  void parity_kept(WaveNumber wave, NodeIndex node) { change(ParityKept{wave, node}); }
  /** What the node could read of this rank's images in this wave is not intact. */
  void damaged(WaveNumber wave, Rank rank, NodeIndex node);
  /**
   * Whether every process has an image that its node can read. @param nodes by place in the wave's roster
   * @param serves whether a node hands its images out to others
   */
  bool available(const StoredWave& wave, const PlacementTable& nodes, const Serves& serves) const;
  /** @return the paths of an image on the node, the local one first; none: other nodes have it */
  ImagePlace place(WaveNumber wave, Rank rank, NodeIndex node) const;
  /** The job went back to @p wave: later waves are void. @return the waves that were dropped */
  std::vector<WaveNumber> forget_after(WaveNumber wave);
  /** @return the waves that count: the two newest, the two newest safe and staged ones, and @p others, which are being copied or are pinned */
  std::set<WaveNumber> keep(const std::set<WaveNumber>& others) const;
  /** Drop the waves that do not count. @return the waves that were dropped */
  std::vector<WaveNumber> prune(const std::set<WaveNumber>& others);

  /** @return what has changed since the last call, in order */
  std::vector<StoreChange> take_changes() { return std::exchange(changes_, {}); }

  /** Changes with the waves and their images, except when an image is staged or copied, or parity of it is made. */
  std::uint64_t version() const { return version_; }
  const StoredWaves& waves() const { return waves_; }
  const StoredWave* find(WaveNumber wave) const;
  std::optional<WaveNumber> newest() const;
  std::optional<WaveNumber> newest_staged() const;
  /** @return the newest wave that the job can go back to when any one node is lost */
  std::optional<WaveNumber> newest_safe() const;
  /** Whether the loss of any one node leaves an image of every rank of this wave. */
  bool safe(WaveNumber wave) const;
  /** @return number of waves of which an image is not in JOBDIR */
  std::size_t to_stage() const;
  /** @return the oldest position of a rank's stream in any wave that counts; 0 without waves */
  std::uint64_t oldest_offset(Rank rank, std::uint32_t stream) const;

 private:
  void change(StoreChange change);

  std::string job_directory_, local_directory_;
  StoredWaves waves_;
  std::map<WaveNumber, std::size_t> unstaged_;  ///< number of ranks that are not staged
  std::map<WaveNumber, std::size_t> unsafe_;    ///< StoredWave::unsafe()
  std::uint64_t version_ = 0;
  std::vector<StoreChange> changes_;
};

/** Schedules which nodes copy to shared storage: a few at a time. */
class Staging {
 public:
  explicit Staging(unsigned at_once) : at_once_(at_once) {}

  /** An order to stage: a node and its ranks. The node counts as busy. */
  struct Order {
    WaveNumber wave;
    NodeIndex node;
    std::vector<Rank> ranks;
  };
  std::vector<Order> next(const Store& store, const std::function<bool(NodeIndex)>& up, Now now);
  /** A node has finished. @param well without errors */
  void finished(NodeIndex node, bool well, Now now);
  void node_lost(NodeIndex node) { busy_.erase(node); }
  /** A node is up, and may have images that are not staged. */
  void node_joined() { seen_.reset(); }
  /** Only @p since and later waves matter from now on, and all nodes copy at once. */
  void hurry(WaveNumber since);
  /** The job went back: current copies are void. */
  void reset();
  /** @return the wave that is being staged; 0: none */
  WaveNumber wave() const { return wave_; }
  const std::set<NodeIndex>& busy() const { return busy_; }

 private:
  void look(const Store& store, const std::function<bool(NodeIndex)>& up);

  unsigned at_once_;
  WaveNumber hurry_ = 0;  ///< older waves do not matter any more
  WaveNumber wave_ = 0;
  std::map<NodeIndex, std::vector<Rank>> open_;  ///< of this wave: nodes with images that were not staged when look() saw them
  std::optional<std::uint64_t> seen_;            ///< version of the store then
  std::set<NodeIndex> busy_;
  std::map<NodeIndex, std::uint64_t> not_before_ms_;
};

}  // namespace reprise::job
