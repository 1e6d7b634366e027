// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What work costs in the simulation, and the measurement of what crrun itself needs. */
#include <algorithm>
#include <cstdint>
#include <vector>

#include "crrun/coordinator/types.h"

namespace reprise::job::sim {

/** By default nothing costs time, and nothing is measured. Bandwidths in bytes per µs (MB/s); 0: no limit. */
struct Costs {
  std::uint64_t sync_us = 0;     ///< of crrun's disk: what each write of the state takes at least
  double crrun_disk = 0;         ///< bandwidth of crrun's disk
  double local_disk = 0;         ///< of a node's disk, which its ranks' images share; 0: an image takes Model::image_us
  double node_to_shared = 0;     ///< between one node and shared storage; 0: a node is staged in some Model::image_us
  double shared = 0;             ///< of shared storage, for all nodes together
  std::uint32_t links = 0;       ///< connections of each rank: they break when the peer's process dies
  bool measure = false;          ///< the CPU time of crrun's own code
};

/** CPU time of crrun's own code. The simulated cluster runs in the same thread; only what runs in run() counts. */
class Meter {
 public:
  enum class Where {
    loop,   ///< the event loop: meanwhile crrun answers nobody
    disks,  ///< the threads that write the state
  };
  struct Sum {
    std::uint64_t loop_ns = 0, disks_ns = 0;
    std::uint64_t longest_ns = 0;  ///< that the event loop was busy with one input and its effects
  };
  explicit Meter(bool on) : on_(on) {}

  template <class Work>
  void run(Where where, Work work, unsigned times = 1) {
    if (!on_ || inside_) return work();
    inside_ = true;
    const std::uint64_t begin = cpu_ns();
    work();
    add(where, (cpu_ns() - begin) * times);
    inside_ = false;
  }
  /** An input and its effects are done. */
  void turn() {
    sum_.longest_ns = std::max(sum_.longest_ns, turn_ns_);
    turn_ns_ = 0;
  }
  bool on() const { return on_; }
  const Sum& sum() const { return sum_; }
  void reset() { sum_ = {}; }

 private:
  static std::uint64_t cpu_ns();
  void add(Where where, std::uint64_t ns);

  bool on_, inside_ = false;
  Sum sum_;
  std::uint64_t turn_ns_ = 0;
};

/**
 * @return the ranks to which @p rank has connections: with up to 26, its neighbours in a cube of ranks, as for a halo exchange
 * in three dimensions; with more, the nearest ones
 */
std::vector<Rank> neighbours(Rank rank, std::uint32_t ranks, std::uint32_t links);

}  // namespace reprise::job::sim
