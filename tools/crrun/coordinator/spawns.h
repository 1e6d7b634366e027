// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Processes that ranks have spawned. A wave contains those that run. A recovery brings back those of its wave, and ends all
 * others.
 */
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "placement.h"
#include "store.h"
#include "streams.h"
#include "types.h"

namespace reprise::job {

/**
 * Place the processes: free slots first, node by node, then one on each node in turn. @param used number of processes
 * that already run on each node
 */
std::optional<PlacementTable> place_spawned(const std::vector<SpawnApp>& apps, const std::vector<Seat>& seats,
                                            const std::map<NodeIndex, std::uint32_t>& used,
                                            const std::map<std::string, NodeIndex>& nodes);

/** PMIx's status of a spawn whose processes could not be started. */
inline constexpr int kLaunchFailed = -181;

/** The processes of one MPI_Comm_spawn: a namespace. Their numbers begin at `first`. */
struct Family {
  struct Process {
    bool started = false, ready = false, ended = false;
    RecoveryNumber incarnation = 0;
    unsigned restarts = 0;  ///< since the last wave
    RankAddress address;
    std::array<OutputStream, 2> output;
    bool alive() const { return started && !ended; }
    /** It has ended, and no more output comes from it. */
    void gone() { ended = output[0].ended = output[1].ended = true; }
  };
  std::uint32_t index = 0;  ///< JOB@index
  Rank first = 0, parent = 0;
  NodeIndex asker = 0;      ///< node of the daemon that asked
  std::uint64_t question = 0;  ///< that daemon's number of the request
  std::vector<SpawnApp> apps;
  PlacementTable nodes;     ///< by rank in the namespace
  std::vector<Process> processes;
  std::set<NodeIndex> awaited;  ///< nodes that have not confirmed yet that they know the namespace
  WaveNumber wave = 0;      ///< the newest wave when it began
  bool answered = false;    ///< the parent has got the answer
  std::int32_t status = 0;  ///< status in that answer
  bool failed = false;      ///< it could not be started; processes that had been started are killed
  bool ended = false;
  bool voided = false;      ///< a recovery ended it

  bool lives() const { return !ended && !voided; }
  bool all_started() const;
  bool any_ended() const;
  bool all_ended() const;
  bool all_said() const;
};

/** All namespaces; past ones are kept as long as the job may go back to before them. */
class Spawns {
 public:
  Family& add(Family spawn);
  /** @return the namespace with a process of this number */
  Family* find(Rank number);
  const Family* find(Rank number) const;
  /** @return a process that lives, or has ended while others of its namespace live; nullptr: there is none of this number */
  Family::Process* process(Rank number);
  const Family::Process* process(Rank number) const;
  Family* by_index(std::uint32_t index);
  /** @return the namespace of a repeated request */
  Family* asked(NodeIndex node, std::uint64_t question);
  /** Whether processes of a namespace run or are about to start. */
  bool any_live() const;
  bool lives_on(NodeIndex node) const;
  std::set<NodeIndex> nodes() const;
  /** @return the number of live processes by node */
  std::map<NodeIndex, std::uint32_t> used() const;
  /** @return the node of each live process */
  std::map<Rank, NodeIndex> where() const;
  /** @return live namespaces of which some processes have ended, and others run: no wave can be taken of these */
  std::string partly_ended() const;
  /** All live processes have been saved. */
  void committed();
  /**
   * The job goes back to a wave: the namespaces in it live, and no others. The output of all will be repeated.
   * @param wave nullptr: the job begins anew @param nodes by place in its roster
   */
  void roll_back(const StoredWave* wave, const PlacementTable& nodes);
  /** Only these waves count. */
  void forget(const StoredWaves& waves);
  /** The namespaces need not wait for @p node any more. */
  void node_lost(NodeIndex node);
  const std::map<Rank, Family>& all() const { return all_; }

 private:
  std::map<Rank, Family> all_;  ///< by first
};

}  // namespace reprise::job
