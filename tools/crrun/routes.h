// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The connection that reaches each node: its own, or that of a daemon above it. A message that went to a node
 * through other daemons is kept until the node has confirmed it. It is sent again when the node loses that route and
 * connects itself.
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

class Routes {
 public:
  /**
   * A message has arrived over @p peer. Entries of a heartbeat that do not count are removed.
   * @return false: it came over a route that its sender no longer uses; drop it, the sender repeats it
   */
  bool up(const Peer& peer, Up& up);
  struct Copy {
    Peer peer;
    std::shared_ptr<const Down> down;
  };
  /** @return the messages to send, in this order. @param living receivers of a message to all */
  std::vector<Copy> down(Down down, const std::vector<NodeIndex>& living);
  /** A connection has ended. @return the node and the instance that it belonged to */
  std::optional<std::pair<NodeIndex, std::string>> closed(const Peer& peer);
  /** A node was given up: send nothing to it through others, and nothing to others through it. */
  void stopped(NodeIndex node);
  /** @return the other node whose connection is used for @p node */
  std::optional<NodeIndex> via(NodeIndex node) const;
  /** @return where the daemon of a connected node listens for daemons below it; nullptr: it does not */
  const Relaying* relaying(NodeIndex node) const;
  /** @return number of kept messages, for tests */
  std::size_t kept() const { return journal_.size(); }

 private:
  struct Route {
    Peer peer;
    std::string instance;
    bool relayed = false;  ///< the connection is another node's
    bool open = true;      ///< and that connection is open
    bool waiting = false;    ///< it has connected itself, and has not been welcomed on that connection yet
    std::uint64_t seen = 0;  ///< last Down.sequence confirmed, for a node that is or was relayed
  };
  bool relayed_up(const Peer& peer, NodeIndex owner, const Up& up);
  void own_up(const Peer& peer, const Up& up);
  /** Whether @p instance of @p node is reached over @p peer, the connection of another node. */
  bool through(const Peer& peer, NodeIndex node, const std::string& instance) const;
  void prune();

  std::map<NodeIndex, Route> routes_;
  std::map<Peer, std::pair<NodeIndex, std::string>> owners_;  ///< by connection
  std::map<NodeIndex, Relaying> relaying_;
  std::deque<std::shared_ptr<const Down>> journal_;  ///< in the order of their sequence
  std::uint64_t sequence_ = 0;                       ///< of the last message sent
  std::size_t prune_at_ = 64;
};

}  // namespace reprise::job
