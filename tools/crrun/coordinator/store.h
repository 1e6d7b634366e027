// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Committed waves: where their images are, which wave can be had, what may be dropped. */
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "types.h"

namespace reprise::job {

struct StoredRank {
  NodeIndex node = 0;   ///< where it was taken
  bool local = true;    ///< still there
  bool staged = false;  ///< in JOBDIR
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
  std::uint64_t offsets[3] = {0, 0, 0};  ///< in standard input, output and error
};

struct StoredWave {
  WaveNumber wave = 0;
  RecoveryNumber recovery = 0;  ///< in which it was taken
  std::uint64_t unix_ns = 0;
  std::vector<StoredRank> ranks;

  bool staged() const;
  std::uint64_t bytes() const;
};

class Store {
 public:
  /** @p job_directory of staged images; @p local_directory of those of a node, the job's id included. */
  Store(std::string job_directory, std::string local_directory);

  void commit(StoredWave wave);
  /** The images of a node are gone. */
  void node_lost(NodeIndex node);
  /** @return whether the wave is now staged as a whole, and was not before */
  bool staged(WaveNumber wave, Rank rank);
  /** No image of this rank's in this wave is intact. */
  void damaged(WaveNumber wave, Rank rank);
  /** Whether every rank can get its image where @p placement puts it. */
  bool available(const StoredWave& wave, const PlacementTable& placement) const;
  /** The newest wave that is available. */
  std::optional<WaveNumber> choose(const PlacementTable& placement) const;
  /** What an image is called on the node, the local one first. */
  ImagePlace place(WaveNumber wave, Rank rank, NodeIndex node) const;
  /** The job went back to @p wave: newer ones are of a future that did not happen. @return which */
  std::vector<WaveNumber> forget_after(WaveNumber wave);
  /** Waves that count: the newest, the two newest staged ones and what lies between. */
  std::set<WaveNumber> keep() const;
  /** Drop the others. @return which */
  std::vector<WaveNumber> prune();

  const std::map<WaveNumber, StoredWave>& waves() const { return waves_; }
  const StoredWave* find(WaveNumber wave) const;
  std::optional<WaveNumber> newest() const;
  std::optional<WaveNumber> newest_staged() const;
  /** Oldest position of a rank's stream in any wave that counts; 0 without waves. */
  std::uint64_t oldest_offset(Rank rank, std::uint32_t stream) const;

 private:
  std::string job_directory_, local_directory_;
  std::map<WaveNumber, StoredWave> waves_;
};

/** Which nodes copy to shared storage, a few at a time. */
class Staging {
 public:
  explicit Staging(unsigned at_once) : at_once_(at_once) {}

  /** Nodes that should be told to stage now, with their ranks; each is counted as busy. */
  struct Order {
    WaveNumber wave;
    NodeIndex node;
    std::vector<Rank> ranks;
  };
  std::vector<Order> next(const Store& store, const std::function<bool(NodeIndex)>& up, Now now);
  /** A node has finished, well or with errors. */
  void finished(NodeIndex node, bool well, Now now);
  void node_lost(NodeIndex node) { busy_.erase(node); }
  /** What is under way is void: the job went back. */
  void reset();
  /** The wave that is being staged; 0: none. */
  WaveNumber wave() const { return wave_; }
  const std::set<NodeIndex>& busy() const { return busy_; }

 private:
  unsigned at_once_;
  WaveNumber wave_ = 0;
  std::set<NodeIndex> busy_;
  std::map<NodeIndex, std::uint64_t> not_before_ms_;
};

}  // namespace reprise::job
