// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Processes that the job's ranks have spawned. They are in no wave: a recovery ends them. */
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "placement.h"
#include "streams.h"
#include "types.h"

namespace reprise::job {

/** Who runs where: free slots first, node by node, then one for each node in turn. @p used: what runs there already. */
std::optional<PlacementTable> place_spawned(const std::vector<SpawnApp>& apps, const std::vector<Seat>& seats,
                                            const std::map<NodeIndex, std::uint32_t>& used,
                                            const std::map<std::string, NodeIndex>& nodes);

/** Processes of one MPI_Comm_spawn: a namespace. Their numbers are `first` and those that follow. */
struct Family {
  struct Process {
    bool started = false, ready = false, ended = false;
    std::array<OutputStream, 2> output;
  };
  std::uint32_t index = 0;  ///< JOB@index
  Rank first = 0, parent = 0;
  NodeIndex asker = 0;      ///< the daemon that asked
  std::uint64_t question = 0;  ///< and its number of the question
  std::vector<SpawnApp> apps;
  PlacementTable nodes;     ///< by rank of the namespace
  std::vector<Process> processes;
  std::set<NodeIndex> awaited;  ///< that have not said yet that they know it
  WaveNumber wave = 0;      ///< newest one when it began
  bool answered = false;    ///< its parent knows how it went
  std::int32_t status = 0;  ///< what it was told
  bool failed = false;      ///< it could not be started; what had been is killed
  bool ended = false;
  bool voided = false;      ///< by a recovery

  bool lives() const { return !ended && !voided; }
  bool all_started() const;
  bool all_ended() const;
  bool all_said() const;
};

/** All of them, the past ones as long as the job may go back to before them. */
class Spawns {
 public:
  Family& add(Family spawn);
  /** The one that has a process of this number. */
  Family* find(Rank number);
  const Family* find(Rank number) const;
  Family* by_index(std::uint32_t index);
  /** The same question, asked again. */
  Family* asked(NodeIndex node, std::uint64_t question);
  /** Processes of one are there, or are about to be. */
  bool any_live() const;
  bool lives_on(NodeIndex node) const;
  std::set<NodeIndex> nodes() const;
  /** Of those that live: how many processes, by node. */
  std::map<NodeIndex, std::uint32_t> used() const;
  /** Of those that live: where each process is. */
  std::map<Rank, NodeIndex> where() const;
  std::string words() const;
  /** The job goes back to @p wave: none lives any more, and what they have said will be said again. */
  void roll_back(WaveNumber wave);
  /** No wave before @p wave counts any more. */
  void forget_before(WaveNumber wave);
  /** A node that they need not wait for any more. */
  void node_lost(NodeIndex node);
  const std::map<Rank, Family>& all() const { return all_; }

 private:
  std::map<Rank, Family> all_;  ///< by first
};

}  // namespace reprise::job
