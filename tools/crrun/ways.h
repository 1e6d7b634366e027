// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file By which connection each node is reached: its own, or that of a daemon above it. What went to a node through others is
 * kept until it is known to have come, and sent again when the node has lost its way and comes by itself.
 */
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "crrun/coordinator/types.h"
#include "job/transport.h"

namespace reprise::job {

class Ways {
 public:
  /**
   * A message has come over @p peer; of a heartbeat is taken what does not count.
   * @return false: it came by a way that is no longer the one of its sender, who says it again; drop it
   */
  bool up(const Peer& peer, Up& up);
  struct Copy {
    Peer peer;
    std::shared_ptr<const Down> down;
  };
  /** What to send where, in this order. @p living: whom a message to all is for */
  std::vector<Copy> down(Down down, const std::vector<NodeIndex>& living);
  /** A connection has ended. @return node and instance that had it */
  std::optional<std::pair<NodeIndex, std::string>> closed(const Peer& peer);
  /** A node was given up: nothing is sent to it through others, nor to others through it. */
  void stopped(NodeIndex node);
  /** Another node whose connection is used for @p node. */
  std::optional<NodeIndex> via(NodeIndex node) const;
  /** Where the daemon of a node that is connected listens for those below it; nullptr: nowhere. */
  const Relaying* relaying(NodeIndex node) const;
  /** How much is kept, for tests. */
  std::size_t kept() const { return journal_.size(); }

 private:
  struct Way {
    Peer peer;
    std::string instance;
    bool relayed = false;  ///< the connection is another node's
    bool open = true;      ///< and stands
    bool waiting = false;  ///< it has come by itself, and was not welcomed there yet
    std::uint64_t seen = 0;  ///< Down.sequence that has come, of a node that is or was relayed
  };
  bool relayed_up(const Peer& peer, NodeIndex owner, const Up& up);
  void own_up(const Peer& peer, const Up& up);
  /** Whether @p peer is the way of @p node's daemon @p instance, and another node's connection. */
  bool through(const Peer& peer, NodeIndex node, const std::string& instance) const;
  void prune();

  std::map<NodeIndex, Way> ways_;
  std::map<Peer, std::pair<NodeIndex, std::string>> owners_;  ///< of connections
  std::map<NodeIndex, Relaying> relaying_;
  std::deque<std::shared_ptr<const Down>> journal_;  ///< in the order of their sequence
  std::uint64_t sequence_ = 0;                       ///< of what was sent last
  std::size_t prune_at_ = 64;
};

}  // namespace reprise::job
