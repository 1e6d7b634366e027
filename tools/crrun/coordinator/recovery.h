// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file A recovery under way: who must still answer, and which processes that moved away must still end.
 *
 *      begin() ──> restoring ──resume()──> resuming ──> complete
 *                      │                      │
 *                      └──> failed <──────────┘   the next recovery begins
 */
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "recovery_plan.h"
#include "roster.h"
#include "types.h"

namespace reprise::job {

enum class CauseKind : std::uint8_t {
  node_lost,
  new_daemon,   ///< a node has another daemon, without the ranks of the one before
  rank_died,
  link_broken,  ///< messages were lost with a connection
  hang,         ///< no rank progresses, and the user wants a rollback then
  failed,       ///< the recovery before this one has failed
  request,      ///< a user wants it, see --rollback-on
  drain,        ///< a user moves the ranks of a node
  restart,      ///< of the job, by crrun --restart
  attach,       ///< by crrun --attach, to a job that was recovering or had spawned processes
};
inline constexpr std::size_t kCauseKinds = static_cast<std::size_t>(CauseKind::attach) + 1;
/** @return whether something failed; else a user or another crrun wants the recovery */
constexpr bool is_failure(CauseKind kind) {
  return kind != CauseKind::request && kind != CauseKind::drain && kind != CauseKind::restart && kind != CauseKind::attach;
}
const char* name(CauseKind kind);

/** Why a recovery begins, and since when that is known. */
struct Cause {
  CauseKind kind;
  std::string what;                ///< "loss of node2"
  std::uint64_t heard_ns = 0;      ///< time of day at which a lost node was last heard of; 0: no node is lost

  /** @return time since the last sign of life of a lost node, as far as the clocks agree */
  std::uint64_t silence_ms(Now now) const { return heard_ns && now.unix_ns > heard_ns ? (now.unix_ns - heard_ns) / 1'000'000 : 0; }
};

/** Times of day of a recovery, for users; 0: not yet. */
struct RecoveryReport {
  RecoveryNumber recovery = 0;
  bool own_stay = false;  ///< only spawned processes go back
  WaveNumber wave = 0;
  std::string cause;
  std::uint64_t detected_ns = 0, decided_ns = 0, restored_ns = 0, resumed_ns = 0;
  std::vector<Rank> restarted;
};

/** Which ranks have answered in each of the two steps. */
class RecoveryRound {
 public:
  enum class Step { restoring, resuming };
  /** A rank that could not be restored. */
  struct Failure {
    Rank rank;
    std::string error;
    bool image_bad;
    bool restarted;  ///< it was to be restarted; else paused
    bool stays;      ///< it runs on, but cannot while others go back
  };

  RecoveryRound(RecoveryNumber recovery, WaveNumber wave, Roster roster, std::set<Rank> restart, Now begun,
                std::uint64_t timeout_ms);

  void restored(const Restored& message);
  void resumed(const Resumed& message);
  /** All are restored, and Resume is sent. */
  void resume(Now now);

  /** Whether a rank has answered in this step. */
  bool answered(Rank rank) const;
  bool all_answered() const { return answered_ == have_.size(); }
  bool late(Now now) const { return now.ms >= deadline_ms_; }
  std::vector<Rank> missing() const;
  const std::vector<Failure>& failures() const { return failures_; }

  RecoveryNumber recovery() const { return recovery_; }
  WaveNumber wave() const { return wave_; }
  Step step() const { return step_; }

 private:
  bool answer(Rank rank);

  RecoveryNumber recovery_;
  WaveNumber wave_;
  Step step_ = Step::restoring;
  std::set<Rank> restart_;
  std::uint64_t timeout_ms_, deadline_ms_;
  Roster roster_;
  std::vector<bool> have_;  ///< by place in the roster
  std::size_t answered_ = 0;
  std::vector<Failure> failures_;
};

/** The recovery that is under way, and what outlives one of several in a row. */
class Recovering {
 public:
  using Order = std::pair<std::vector<NodeIndex>, Recover>;  ///< a message and its receivers; none: all nodes

  /**
   * Ranks move from their nodes to others. A living node must confirm that the processes have ended.
   * @param lives whether a node is up
   */
  void depart(const PlacementTable& from, const PlacementTable& to, const std::function<bool(NodeIndex)>& lives);
  /** A living node has processes that must end before the job continues. */
  void must_leave(NodeIndex node) { leaving_.insert(node); }
  void node_lost(NodeIndex node) { leaving_.erase(node); }
  /** A node confirms that all have ended that had to. @return whether that was awaited */
  bool moved_away(NodeIndex node) { return leaving_.erase(node) > 0; }
  bool awaits(NodeIndex node) const { return leaving_.count(node) > 0; }

  /**
   * @param hosts nodes that start ranks anew
   * @return messages to send now. A node that takes a rank of a living node over gets its own only from departed().
   */
  std::vector<Order> begin(RecoveryRound round, Recover message, const std::vector<NodeIndex>& living,
                           const std::set<NodeIndex>& hosts);
  /** @return a message that can be sent now that nothing is left behind */
  std::optional<Order> departed();
  void restored(const Restored& message) { round_->restored(message); }
  void resumed(const Resumed& message) { round_->resumed(message); }
  void resume(Now now) { round_->resume(now); }

  enum class Verdict { pending, resume, complete, failed };
  /**
   * A failure counts only when all have answered, so that the next recovery considers all failures, or when it is late. But that a
   * rank cannot stay counts at once.
   */
  Verdict verdict(Now now) const;
  /** @return nodes that have not done their part: their ranks are missing, or processes on them have not ended */
  std::set<NodeIndex> silent(const std::function<std::optional<NodeIndex>(Rank)>& node_of) const;
  /** It is over, or void. */
  void end();

  const RecoveryRound* round() const { return round_ ? &*round_ : nullptr; }
  explicit operator bool() const { return round_.has_value(); }

 private:
  std::optional<RecoveryRound> round_;
  std::set<NodeIndex> leaving_;       ///< living nodes that have not confirmed yet that the ranks which moved away have ended
  std::set<NodeIndex> arriving_;      ///< nodes to which ranks of living nodes have moved
  bool left_before_ = false;          ///< an earlier recovery has moved ranks whose processes may still be there
  std::optional<Order> held_back_;    ///< for these, until nothing is left behind
};

/** Nodes that are silent, and whose loss the daemons prepare for. Too many false alarms: none for a while. */
class Expectation {
 public:
  explicit Expectation(std::uint64_t detect_ms) : detect_ms_(detect_ms) {}
  /** @return whether the user may be troubled with another preparation at this time */
  bool allowed(Now now);
  /** @return whether the nodes differ from those that are expected to be lost */
  bool set(std::set<NodeIndex> nodes, Now now);
  /** A recovery begins: the daemons take what fits. */
  void recovering() { nodes_.clear(); }
  bool any() const { return !nodes_.empty(); }
  const std::set<NodeIndex>& nodes() const { return nodes_; }

 private:
  std::uint64_t detect_ms_;
  std::set<NodeIndex> nodes_;
  std::vector<std::uint64_t> in_vain_ms_;  ///< times of recent false alarms
};

}  // namespace reprise::job
