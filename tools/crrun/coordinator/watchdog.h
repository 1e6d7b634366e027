// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Whether the job hangs: no rank of it has progressed for the time that the user gave. Daemons see whether their ranks progress
 * (crd/progress.h) and report it in heartbeats; the least that a node says is that of the job.
 *
 * A wave that begins after the last progress saves the hang. So none begins while no rank has progressed since the newest one, and a
 * rollback goes to a wave from before. After a rollback the ranks come to the same place again. Until they have got past it, no wave
 * begins and rollbacks are counted: a hang that comes again and again follows from the program, and rollbacks do not help.
 */
#include <functional>
#include <map>
#include <optional>

#include "types.h"

namespace reprise::job {

class Watchdog {
 public:
  /** Rollbacks in a row because of a hang, without the ranks having got past the place where they hang. */
  static constexpr unsigned kMostRollbacks = 2;

  /** @param after_ms time without progress that is a hang; 0: nobody watches @param look_ms daemons look so often */
  Watchdog(std::uint64_t after_ms, std::uint64_t look_ms) : after_ms_(after_ms), look_ms_(look_ms) {}

  bool on() const { return after_ms_ > 0; }
  /** All ranks run (again): what was reported before is void. */
  void running(Now now);
  /** A heartbeat of a node says this. */
  void heard(NodeIndex node, const Standing& standing, Now now);
  void node_lost(NodeIndex node) { nodes_.erase(node); }
  /** A wave was committed; also of an earlier crrun, after running(). */
  void committed(WaveNumber wave, Now begun);

  enum class Change { none, hangs, goes_on };
  /**
   * The ranks run, and no wave is under way.
   * @param placement every node with a rank that has not ended must have reported @param ended whether a rank has ended
   */
  Change judge(const PlacementTable& placement, const std::function<bool(Rank)>& ended);
  /** Whether the last judgement was that the job hangs. */
  bool hangs() const { return hangs_; }
  /** @return for how long no rank has progressed, or ended, although it could */
  std::uint64_t stood_ms() const;
  /** Ranks that were seen to wait in MPI or to sleep, and the first few of them. */
  struct Seen {
    std::uint64_t count = 0;
    std::vector<Rank> first;
  };
  Seen waiting() const;
  Seen asleep() const;

  /** Whether a wave that begins now, or is the next, would or may save the hang. */
  bool holds_waves() const;
  /**
   * Whether a stored wave may have been taken after the last progress, or is one that the ranks went back to and have not progressed
   * from, or a later one: the bytes that ranks exchange after a wave look like progress, so a wave may hold the hang all the same.
   */
  bool hung(WaveNumber wave) const;
  /** Whether a rollback may help, as far as is known. */
  bool may_roll_back() const { return rollbacks_ < kMostRollbacks; }
  /** The job goes back to @p wave because it hangs; 0: to the beginning. */
  void rolled_back(WaveNumber wave);
  unsigned rollbacks() const { return rollbacks_; }

 private:
  struct Report {
    std::uint64_t heard_ms = 0;
    Standing said;
    std::uint64_t progressed_ms() const { return heard_ms - std::min<std::uint64_t>(heard_ms, said.idle_ms()); }
  };
  std::optional<std::uint64_t> progressed_ms() const;
  Seen seen(std::uint32_t (Standing::*count)() const,
            const google::protobuf::RepeatedField<std::uint32_t>& (Standing::*first)() const) const;

  std::uint64_t after_ms_, look_ms_;
  std::uint64_t since_ms_ = 0;                    ///< the ranks run since then
  std::uint64_t ended_ms_ = 0;                    ///< a rank was last seen to have ended
  std::map<NodeIndex, Report> nodes_;             ///< since then
  std::map<WaveNumber, std::uint64_t> begun_ms_;  ///< of the newest waves; those that are missing were taken before
  bool hangs_ = false;
  unsigned rollbacks_ = 0;
  std::optional<WaveNumber> back_to_;      ///< the wave of the last rollback because of a hang
  std::optional<std::uint64_t> place_ms_;  ///< after a rollback: the job had run for so long from the wave to where it hung
};

}  // namespace reprise::job
