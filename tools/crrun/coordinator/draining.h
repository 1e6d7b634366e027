// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Nodes that are being emptied, at a user's request.
 *
 *      add() ──> needs a wave ──> is in a wave ──> its images are elsewhere ──> ready: a recovery moves its ranks ──> gone
 *                    ^                 │ aborted           │ the wave is dropped without a newer one
 *                    └─────────────────┴───────────────────┘
 */
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "store.h"
#include "types.h"

namespace reprise::job {

class Draining {
 public:
  struct Drain {
    std::uint64_t request;  ///< to be answered when the node is empty, or will not be
    NodeIndex node;
    WaveNumber wave = 0;    ///< the wave that was taken for the drain; 0: it needs one
    WaveNumber told = 0;    ///< the wave that the node was told to stage
    bool ready = false;     ///< the images of its ranks are readable on other nodes
  };
  /** Have a node copy these images to shared storage now. */
  struct Order {
    WaveNumber wave;
    NodeIndex node;
    std::vector<Rank> ranks;
  };
  struct Step {
    bool wave_wanted = false;  ///< a drain waits for a wave, and none is open
    std::vector<Order> stage;
    bool move = false;         ///< at least one node is ready
  };

  void add(std::uint64_t request, NodeIndex node) { drains_.push_back({request, node}); }
  bool any() const { return !drains_.empty(); }
  /** Whether a drain is not in any wave yet. */
  bool needs_wave() const;
  void wave_begins(WaveNumber wave);
  void wave_aborted(WaveNumber wave);
  /** A recovery leaves the nodes' ranks where they are: each drain needs a new wave. */
  void start_over();
  /**
   * @param staging nothing: there is no shared storage @param copied images get to other nodes without orders from here
   * @param open wave that is being taken; 0: none @param nodes_in where the processes of a wave are, by place in its roster
   */
  Step next(const Store& store, const Staging* staging, bool copied, WaveNumber open,
            const std::function<PlacementTable(const StoredWave&)>& nodes_in);
  /** Whether the ranks of @p node can be restarted elsewhere. */
  bool ready(NodeIndex node) const;
  std::vector<NodeIndex> ready_nodes() const;
  /** @return the drains of @p node, which are removed */
  std::vector<Drain> take(NodeIndex node);
  /** @return the drains whose node is not in use any more, which are removed */
  std::vector<Drain> take_done(const std::function<bool(NodeIndex)>& in_use);
  /** @return all drains, which are removed */
  std::vector<Drain> take_all();

 private:
  std::vector<Drain> drains_;
};

}  // namespace reprise::job
