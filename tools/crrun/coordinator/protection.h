// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Redundancy between daemons (--redundancy): which node reads whose images of a wave, so that the loss of a node leaves an
 * image of each rank, or what it is computed from.
 *
 *      wave committed ──> open: copies or parity missing ──next()──> ordered ──done()──> the store knows what is kept
 *                           ^                                         │ error, receiver or source lost
 *                           └─────────────────────────────────────────┘ after a pause; copies from the third error on elsewhere
 *
 * Nodes with images form a ring: in node order, but failure groups take turns, so that the next node is seldom of the same group.
 * PARTNER: each node's images go to the next nodes of other groups, then to any, and to nodes without images only if there are too few.
 * XOR: each N nodes in a row are a set. What is left over is a smaller set, or joins the last one if it is a single node. Sets whose
 * nodes have what they had stay; the others are formed again.
 * next() decides from the store alone what is missing: after a loss, a recovery or an attach it finds the rest.
 */
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "recovery_plan.h"
#include "store.h"
#include "types.h"

namespace reprise::job {

class Protection {
 public:
  /** @param groups failure groups of the nodes, by index; empty: each node is one of its own */
  Protection(const Redundancy& redundancy, std::vector<std::uint32_t> groups, std::size_t nodes)
      : redundancy_(redundancy), groups_(std::move(groups)), nodes_(nodes) {}

  bool on() const { return redundancy_.kind() != Redundancy::NONE; }
  /**
   * PARTNER: the nodes that may copy what a node has, the better ones first. @param homes nodes that have something to copy
   * @param most so many at most
   */
  std::vector<NodeIndex> partners(NodeIndex from, const std::set<NodeIndex>& homes, const Serves& takes, std::size_t most) const;
  /** What a node is to read. It counts as busy. */
  struct Order {
    NodeIndex to;
    Protect message;
  };
  struct Step {
    WaveNumber wave = 0;
    std::vector<StoredSet> formed;  ///< the store must know of these first
    std::vector<Order> orders;
  };
  /** @param takes whether a node may be given copies */
  Step next(const Store& store, const Serving& serving, const Serves& takes, Now now);
  /** A node has answered, and the store knows what it has got. */
  void done(NodeIndex from, const ProtectDone& message, Now now);
  void node_lost(NodeIndex node);
  /** A node is up, or hands its images out now. */
  void node_joined(NodeIndex node);
  /** The job went back: current copies are void. */
  void reset();
  /** @return the wave whose images are being copied; 0: none */
  WaveNumber wave() const { return wave_; }
  bool busy(NodeIndex node) const { return ordered_.count(node) > 0; }

 private:
  using Sources = std::vector<std::pair<NodeIndex, std::vector<Rank>>>;
  using Needs = std::map<NodeIndex, Sources>;    ///< by receiver
  using Pair = std::pair<NodeIndex, NodeIndex>;  ///< receiver and source
  struct Ordered {
    std::set<NodeIndex> sources;
    std::set<NodeIndex> failed = {};
  };
  struct Trouble {
    unsigned times = 0;
    std::uint64_t not_before_ms = 0;
  };

  void look(const Store& store, const Serving& serving, const Serves& takes);
  Needs needs(const StoredWave& wave, const Serving& serving, const Serves& takes);
  Needs copies(const StoredWave& wave, const std::vector<NodeIndex>& home, const std::set<NodeIndex>& homes, const Serves& takes) const;
  Needs parity(const StoredWave& wave, const std::vector<NodeIndex>& home);
  bool xor_sets() const { return redundancy_.kind() == Redundancy::XOR; }
  std::vector<NodeIndex> ring(const std::set<NodeIndex>& homes) const;
  /** Nodes of the ring, and spares, that may copy what the node at place @p at of the ring has. */
  std::vector<NodeIndex> partners(const std::vector<NodeIndex>& around, std::size_t at, const std::vector<NodeIndex>& spares,
                                  const Serves& takes, std::size_t most) const;
  std::vector<NodeIndex> spares(const std::set<NodeIndex>& homes, const Serves& takes) const;
  std::uint32_t group(NodeIndex node) const { return node < groups_.size() ? groups_[node] : node; }
  bool troubled(NodeIndex receiver, NodeIndex source) const;

  Redundancy redundancy_;
  std::vector<std::uint32_t> groups_;
  std::size_t nodes_;
  WaveNumber wave_ = 0;
  Needs open_;                                        ///< of this wave, when look() saw it, without what was ordered
  std::vector<StoredSet> formed_;                     ///< of this wave, and the store does not know of them yet
  std::map<NodeIndex, Ordered> ordered_;              ///< receivers that have not answered
  std::optional<std::uint64_t> seen_;                 ///< version of the store when look() saw it; nothing: look again
  std::map<Pair, Trouble> trouble_;
};

}  // namespace reprise::job
