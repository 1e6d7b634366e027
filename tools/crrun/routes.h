// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The connection that reaches each node: its own, or that of a daemon above it; and crrun's end of the channel to
 * each daemon (job/channel.h).
 */
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crrun/coordinator/types.h"
#include "job/channel.h"
#include "job/transport.h"

namespace reprise::job {

class Routes {
 public:
  /** @param crrun identifies this process to the daemons */
  explicit Routes(std::string crrun) : crrun_(std::move(crrun)) {}
  /**
   * A message has arrived over @p peer. Entries of a heartbeat that do not count are removed.
   * @return false: drop it. It had arrived before, or it came over a route that its sender no longer uses.
   */
  bool up(const Peer& peer, Up& up);
  struct Copy {
    Peer peer;
    std::shared_ptr<const Down> down;
  };
  /**
   * Number a message, and say in it what has arrived. A Welcome is followed by what the daemon has missed.
   * @param living receivers of a message to all
   * @return the messages to send, in this order
   */
  std::vector<Copy> down(Down down, const std::vector<NodeIndex>& living);
  /** A connection has ended. @return the node and the instance that it belonged to */
  std::optional<std::pair<NodeIndex, std::string>> closed(const Peer& peer);
  /** A node was given up: keep nothing for it, send nothing to it through others, and nothing to others through it. */
  void stopped(NodeIndex node);
  /** @return the other node whose connection is used for @p node */
  std::optional<NodeIndex> via(NodeIndex node) const;
  /** @return where the daemon of a connected node listens for daemons below it; nullptr: it does not */
  const Relaying* relaying(NodeIndex node) const;
  /** @return number of messages that @p node has not confirmed, for tests */
  std::size_t kept(NodeIndex node) const;

 private:
  struct Route {
    Peer peer;
    std::string instance;
    bool relayed = false;  ///< the connection is another node's
    bool open = true;      ///< and that connection is open
    bool member = false;   ///< the daemon was welcomed and not given up since: counted messages are for it
    bool ready = false;    ///< it was welcomed since its last Hello: they may be sent
    Outgoing<Down> outgoing;
    Incoming incoming;
  };
  bool own_up(const Peer& peer, const Up& up);
  bool relayed_up(const Peer& peer, NodeIndex owner, const Up& up);
  void hello(const Peer& peer, const Up& up, bool relayed);
  /** Whether @p instance of @p node is reached over @p peer, the connection of another node. */
  bool through(const Peer& peer, NodeIndex node, const std::string& instance) const;
  std::uint64_t seen(NodeIndex node) const;
  void confirm(Down& down) const;

  std::string crrun_;
  std::map<NodeIndex, Route> routes_;
  std::map<Peer, std::pair<NodeIndex, std::string>> owners_;  ///< by connection
  std::map<NodeIndex, Relaying> relaying_;
  std::uint64_t sequence_ = 0;  ///< of the last counted message
};

}  // namespace reprise::job
