// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Copies of kept memory that programs ask for between waves (--redundancy partner): which node reads which, and what a
 * recovery gives to ranks.
 *
 *      the rank's node has it ──> copies missing ──next()──> ordered ──has()──> elsewhere: the rank's node is told
 *                                   ^                           │ error: the next node of the ring; none is left: told, too
 *                                   └───────────────────────────┘ receiver lost
 *
 * Nothing of this is in the state: to another crrun the daemons say again what they have. A copy is of use until all waves that count
 * are newer: images have the memory, too.
 */
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "recovery_plan.h"
#include "types.h"

namespace reprise::job {

class KeptCopies {
 public:
  /** Pieces of memory of one rank, at most: more are not copied. */
  static constexpr std::size_t kMost = 64;
  /** @param wanted nodes beside the rank's own that are to have each copy */
  explicit KeptCopies(std::size_t wanted) : wanted_(wanted) {}

  struct Step {
    std::vector<KeepCopy> orders;
    std::vector<std::pair<NodeIndex, KeptCopied>> answers;  ///< with their receivers
  };
  using Home = std::function<std::optional<NodeIndex>(Rank)>;
  /** @return so many nodes that may keep copies for a node, the better ones first */
  using Partners = std::function<std::vector<NodeIndex>(NodeIndex node, std::size_t most)>;

  /** A node has a copy, or could not read it. */
  void has(NodeIndex node, const HasCopy& message);
  /** @param home the node that a rank is on */
  Step next(const Home& home, const Partners& partners, const Serving& serving);
  /** Add to a recovery the memory of the ranks that it restarts, where that is newer than their images have it. */
  void fill(Recover& message, const Serving& serving) const;
  void node_lost(NodeIndex node);
  /** A node is up, or can be read from now, or ranks have moved. */
  void look_again();
  /** Waves before @p oldest do not count any more. */
  void prune(WaveNumber oldest);
  /** The job begins anew. */
  void clear() { memories_.clear(); }
  std::size_t size() const { return memories_.size(); }

 private:
  using Name = std::pair<Rank, std::string>;
  struct Memory {
    std::map<NodeIndex, KeptCopy> on;               ///< the newest of each node
    std::map<NodeIndex, std::uint64_t> ordered;     ///< versions that nodes are reading
    std::set<NodeIndex> failed;                     ///< could not read the newest version
    std::uint64_t asked = 0;                        ///< a rank waits for this version; 0: for none
    bool look = true;                               ///< something has changed since next() saw it
  };
  void look(const Name& name, Memory& memory, const Home& home, const Partners& partners, const Serving& serving, Step& step);

  std::size_t wanted_;
  std::map<Name, Memory> memories_;
};

}  // namespace reprise::job
