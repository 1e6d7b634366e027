// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Which nodes are there. */
#include <optional>
#include <set>

#include "types.h"

namespace reprise::job {

enum class NodeState {
  starting,  ///< its daemon has not said Hello yet
  up,
  lost,  ///< given up; what its daemon says is void until it has come back clean
};

struct Member {
  Node node;
  NodeState state = NodeState::starting;
  std::string instance;
  bool draining = false;     ///< nothing is placed there any more
  bool link = false;         ///< its ssh or srun runs
  bool link_died = false;    ///< it did, and ended
  bool connected = false;    ///< its connection stands
  bool welcomed = false;     ///< was told the job
  bool suspected = false;    ///< somebody noticed something: less silence is enough
  std::uint64_t since_ms = 0;         ///< of its state
  std::uint64_t heard_ms = 0;         ///< last
  std::uint64_t heard_unix_ns = 0;
  std::uint64_t next_start_ms = 0;    ///< when to try to start a daemon again
  std::uint64_t told_stale_ms = 0;
  std::uint32_t cpus = 0;
  bool module_loaded = false;
  std::string module_problem;
  std::vector<std::string> addresses;
  std::uint64_t free_local_bytes = 0, image_bytes = 0;
  double load = 0;
};

/** What a Hello means. */
enum class Greeting {
  joined,    ///< a node that was awaited
  again,     ///< known, and still counts
  replaced,  ///< the node was up with another daemon, which is gone with its ranks
  stale,     ///< given up, and still has ranks or images
  rejoined,  ///< given up, clean: a spare now
  unknown,   ///< no node of this job
};

struct Loss {
  NodeIndex node;
  std::string why;
};

class Membership {
 public:
  /** @p heartbeat_ms how often a daemon that lives is heard of */
  Membership(const std::vector<Node>& nodes, std::uint64_t lost_after_ms, std::uint64_t heartbeat_ms);

  /** A message other than Hello. @return whether it counts */
  bool heard(NodeIndex node, const std::string& instance, Now now);
  /** A relay has heard of @p node. */
  void heard_of(NodeIndex node, Now now);
  Greeting hello(NodeIndex node, const std::string& instance, const Hello& hello, Now now);
  /** Somebody noticed that the node may be gone. */
  void suspect(NodeIndex node);
  /** Nodes that have been silent for too long, now lost. */
  std::vector<Loss> silent(Now now);
  /** Nodes of which some heartbeats are missing: they may be heard of again, or be lost. */
  std::set<NodeIndex> doubtful(Now now) const;
  /** Nobody could be heard for so long, for want of listening. */
  void excuse(std::uint64_t ms);
  /** Given up. @return whether it was not lost before */
  bool lose(NodeIndex node, Now now);
  /** Lost nodes whose daemon should be started again. */
  std::vector<NodeIndex> to_start(Now now, std::uint64_t every_ms);

  std::vector<Member>& all() { return members_; }
  const std::vector<Member>& all() const { return members_; }
  Member* find(NodeIndex node) { return node < members_.size() ? &members_[node] : nullptr; }
  const Member& at(NodeIndex node) const { return members_.at(node); }
  bool up(NodeIndex node) const { return node < members_.size() && members_[node].state == NodeState::up; }
  std::vector<NodeIndex> living() const;
  bool any_starting() const;
  const std::string& host(NodeIndex node) const { return members_.at(node).node.host(); }
  std::optional<NodeIndex> by_host(const std::string& host) const;

 private:
  std::vector<Member> members_;
  std::uint64_t lost_after_ms_, heartbeat_ms_;
};

}  // namespace reprise::job
