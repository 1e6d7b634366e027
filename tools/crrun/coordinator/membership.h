// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The state of the nodes. */
#include <cstdint>
#include <optional>
#include <set>

#include "arrivals.h"
#include "types.h"

namespace reprise::job {

enum class NodeState {
  starting,  ///< its daemon has not sent Hello yet
  up,
  lost,  ///< given up; its daemon's messages are void until it rejoins without ranks and images
};

struct Member {
  Node node;
  NodeState state = NodeState::starting;
  std::string instance;
  bool draining = false;     ///< no rank is placed there any more
  bool link = false;         ///< its ssh or srun runs
  bool link_died = false;    ///< its ssh or srun has ended
  bool connected = false;    ///< its connection is open
  bool welcomed = false;     ///< has received the job
  bool suspected = false;    ///< something suggests that it is lost: a shorter silence suffices
  std::uint64_t since_ms = 0;         ///< start of its current state
  std::uint64_t heard_ms = 0;         ///< time of the last sign of life
  std::uint64_t heard_unix_ns = 0;
  Arrivals arrivals;                  ///< of its heartbeats
  std::uint64_t granted_ms = 0;       ///< its newest lease was granted for this limit of silence
  std::uint64_t lease_end_ms = 0;     ///< until then its ranks may run, at the latest: its clock began when it sent the heartbeat
  std::uint64_t next_start_ms = 0;    ///< when to try to start a daemon again
  std::uint64_t told_stale_ms = 0;
  std::uint32_t cpus = 0;
  Parts parts;
  bool module_loaded = false;
  std::string module_problem;
  std::vector<std::string> addresses;
  std::optional<Relaying> serving;    ///< where it hands its images out; nothing: it does not
  std::uint64_t free_local_bytes = 0, image_bytes = 0;
  double load = 0;
};

/** @return the state in one word, for users. @param ranks number of ranks on the node */
const char* member_state(const Member& member, std::uint64_t ranks);

/** The meaning of a Hello. */
enum class Greeting {
  joined,    ///< an expected node
  again,     ///< a known daemon, which still counts
  replaced,  ///< the node was up with another daemon, which has ended with its ranks
  stale,     ///< given up, but still has ranks or images
  rejoined,  ///< was given up, has nothing left: now a spare
  unknown,   ///< not a node of this job
};

struct Loss {
  NodeIndex node;
  std::string why;
};

class Membership {
 public:
  /**
   * @param longest_ms longest silence until a node is lost @param shortest_ms shortest one; 0: five heartbeats
   * @param heartbeat_ms interval of a daemon's heartbeats
   */
  Membership(const std::vector<Node>& nodes, std::uint64_t longest_ms, std::uint64_t shortest_ms, std::uint64_t heartbeat_ms);

  /** A message other than Hello arrived. @return whether it counts */
  bool heard(NodeIndex node, const std::string& instance, Now now);
  /**
   * A heartbeat of @p node arrived, itself or through a relay, and counts.
   * @param patient something is known that may make the node answer late
   * @return length, in ms, of the lease that the answer grants: 2/3 of the silence after which the node is lost from now on
   */
  std::uint32_t beat(NodeIndex node, bool patient, Now now);
  /** @return the silence, in ms, after which the node is lost */
  std::uint64_t limit_ms(const Member& member) const;
  Greeting hello(NodeIndex node, const std::string& instance, const Hello& hello, Now now);
  /**
   * @return the shortest time, in ms, that was left of a lease since the last call: when the next heartbeat came, and now.
   * Negative: the ranks of a node stand still, and it is not lost yet. Nothing if no node is up.
   */
  std::optional<std::int64_t> take_lease_left(Now now);
  /** Something suggests that the node is lost. */
  void suspect(NodeIndex node);
  /** @return nodes that have been silent for too long; they are lost now */
  std::vector<Loss> silent(Now now);
  /** @return nodes with missing heartbeats: they may answer again, or be lost */
  std::set<NodeIndex> doubtful(Now now) const;
  /** Do not count the last @p ms: crrun itself was stopped and received nothing. */
  void excuse(std::uint64_t ms);
  /** Give the node up. @return whether it was not lost before */
  bool lose(NodeIndex node, Now now);
  /** @return lost nodes on which to start a daemon again */
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
  void heard_of(Member& member, Now now);

  std::vector<Member> members_;
  mutable std::size_t started_ = 0;  ///< the members before this one have started: none starts twice
  std::uint64_t longest_ms_, shortest_ms_, heartbeat_ms_;
  std::optional<std::int64_t> lease_left_ms_;  ///< the shortest that a heartbeat has found since take_lease_left()
};

}  // namespace reprise::job
