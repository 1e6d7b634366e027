// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file What a daemon does that stands between crrun and others: it passes messages on downward, and joins upward
 * what says the same of many ranks. It does no I/O and reads no clock.
 */
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "job/messages.pb.h"

namespace reprise::job {

/** The tree by node index: crrun has the first @p fan_out nodes, each node the next fan_out that have no parent yet. */
class Tree {
 public:
  explicit Tree(std::uint32_t nodes, std::uint32_t fan_out = 64) : nodes_(nodes), fan_out_(fan_out) {}
  /** None: crrun itself. */
  std::optional<std::uint32_t> parent(std::uint32_t node) const;
  std::vector<std::uint32_t> children(std::uint32_t node) const;
  /** The node itself and all below. */
  std::vector<std::uint32_t> below(std::uint32_t node) const;

 private:
  std::uint32_t nodes_, fan_out_;
};

class Relay {
 public:
  /**
   * @p self index and @p instance of the daemon; @p children those directly below, with all that are below each of
   * them, as far as they are known: heard() adds others. What comes late is sent without waiting longer than
   * @p patience_ms for the rest.
   */
  Relay(std::uint32_t self, std::string instance, std::map<std::uint32_t, std::set<std::uint32_t>> children,
        std::uint64_t patience_ms);

  /** Ranks by node: whose answers a wave or a recovery waits for. */
  void placement(const std::vector<std::uint32_t>& node_of_rank);
  /**
   * A message of @p node has come from @p child: it is below it, or the child itself.
   * @return false when it cannot be: nobody below speaks for this daemon
   */
  bool heard(std::uint32_t child, std::uint32_t node);
  /**
   * A message of a child's, or of the daemon itself. @return what to send up now, in this order. The daemon's own heartbeat
   * comes after all that was said below before the heartbeats that it takes along.
   */
  std::vector<Up> up(const Up& message, std::uint64_t now_ms);
  /** @return what has waited long enough */
  std::vector<Up> tick(std::uint64_t now_ms);
  /** @return what waits for more of its kind */
  std::vector<Up> flush();
  /** Since when the heartbeat of another waits for the daemon's own. */
  std::optional<std::uint64_t> beats_since() const { return beats_since_; }
  /** Children to pass a message on to. A Launch or Recover in it brings the placement up to date. */
  std::vector<std::uint32_t> down(const Down& message);
  /** Of an answer to heartbeats, what concerns @p child and those below it. */
  Down answer_for(std::uint32_t child, const Down& heartbeat) const;
  /** A child is gone; its own children go elsewhere. */
  void child_lost(std::uint32_t child);

 private:
  /** Answers to one wave or one step of a recovery. */
  struct Joined {
    Up message;
    std::set<std::uint32_t> ranks;
    std::uint64_t since_ms = 0;
    bool urgent = false;  ///< an error is in it
  };
  using Key = std::pair<int, std::uint64_t>;

  template <class Field>
  std::optional<Up> join(Key key, const Up& message, Field field, std::uint64_t now_ms);
  Up finish(Key key, Joined joined);

  std::uint32_t self_;
  std::string instance_;
  std::uint32_t recovery_ = 0;  ///< what the daemon itself has said: those below may be ahead of it
  std::map<std::uint32_t, std::set<std::uint32_t>> children_;
  std::uint64_t patience_ms_;
  std::vector<std::uint32_t> node_of_rank_;
  std::size_t ranks_below_ = 0;
  std::map<Key, Joined> open_;
  std::map<Key, std::set<std::uint32_t>> sent_;  ///< ranks that crrun has been told of
  std::map<std::uint32_t, RelayedBeat> beats_;   ///< of nodes heard of since the last own heartbeat
  std::optional<std::uint64_t> beats_since_;
};

}  // namespace reprise::job
