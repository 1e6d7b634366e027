// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The part of a daemon that stands between crrun and other daemons: it passes messages down, and joins the answers
 * of many ranks on the way up. It does no I/O and reads no clock.
 */
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "job/messages.pb.h"

namespace reprise::job {

/** The tree by node index: crrun has the first @p fan_out nodes as children, each node the next fan_out without a parent. */
class Tree {
 public:
  explicit Tree(std::uint32_t nodes, std::uint32_t fan_out = 64) : nodes_(nodes), fan_out_(fan_out) {}
  /** @return nothing: crrun itself is the parent */
  std::optional<std::uint32_t> parent(std::uint32_t node) const;
  std::vector<std::uint32_t> children(std::uint32_t node) const;
  /** @return the node itself and all nodes below it */
  std::vector<std::uint32_t> below(std::uint32_t node) const;

 private:
  std::uint32_t nodes_, fan_out_;
};

class Relay {
 public:
  /**
   * @param self, instance index and instance of this daemon
   * @param children the daemons directly below, each with all known nodes below it; heard() adds others
   * @param patience_ms longest time that an answer waits for others to be joined with
   */
  Relay(std::uint32_t self, std::string instance, std::map<std::uint32_t, std::set<std::uint32_t>> children,
        std::uint64_t patience_ms);

  /** Node of each rank: a wave or a recovery waits for the answers of the ranks at or below this node. */
  void placement(const std::vector<std::uint32_t>& node_of_rank);
  /**
   * Note that a message of @p node has come from @p child, which is @p node itself or above it.
   * @return false when that is impossible: no daemon below sends in this daemon's name
   */
  bool heard(std::uint32_t child, std::uint32_t node);
  /**
   * Handle a message of a daemon below, or of this daemon itself. @return what to send up now, in this order. All that
   * was received from below before a heartbeat is sent before the daemon's own heartbeat that carries it: `sent` holds.
   */
  std::vector<Up> up(const Up& message, std::uint64_t now_ms);
  /** @return the joined answers that have waited for the patience time */
  std::vector<Up> tick(std::uint64_t now_ms);
  /** @return all answers that wait to be joined with others */
  std::vector<Up> flush();
  /** Whether an answer waits to be joined with others: then tick() is to be called. */
  bool joining() const { return !open_.empty(); }
  /** Since when a heartbeat from below has been waiting for the daemon's own; nothing: none waits. */
  std::optional<std::uint64_t> beats_since() const { return beats_since_; }
  /** @return the children to pass a message on to. A Launch or Recover in it updates the placement. */
  std::vector<std::uint32_t> down(const Down& message);
  /** @return the part of an answer to heartbeats that concerns @p child and the nodes below it */
  Down answer_for(std::uint32_t child, const Down& heartbeat) const;
  /** The connection of a child has ended; the daemons below it connect elsewhere. */
  void child_lost(std::uint32_t child);

 private:
  /** The joined answers to one wave or one step of a recovery. */
  struct Joined {
    Up message;
    std::set<std::uint32_t> ranks;
    std::uint64_t since_ms = 0;
    bool urgent = false;  ///< it contains an error
  };
  using Key = std::pair<int, std::uint64_t>;

  template <class Field>
  std::optional<Up> join(Key key, const Up& message, Field field, std::uint64_t now_ms);
  Up finish(Key key, Joined joined);

  std::uint32_t self_;
  std::string instance_;
  std::uint32_t recovery_ = 0;  ///< of the daemon's own last message: those below may have newer ones
  std::map<std::uint32_t, std::set<std::uint32_t>> children_;
  std::uint64_t patience_ms_;
  std::vector<std::uint32_t> node_of_rank_;
  std::size_t ranks_below_ = 0;
  std::map<Key, Joined> open_;
  std::map<Key, std::set<std::uint32_t>> sent_;  ///< ranks whose answers have been sent to crrun
  std::map<std::uint32_t, RelayedBeat> beats_;   ///< by node, the newest heartbeat since the daemon's last own one
  std::optional<std::uint64_t> beats_since_;
};

}  // namespace reprise::job
