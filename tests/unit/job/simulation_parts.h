// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What the simulated cluster consists of, for its own sources. */
#include "simulation.h"

namespace reprise::job::sim {

/** A message to daemons, with what each of them would have to look for in it. */
struct Cluster::Parsed {
  Down down;
  std::size_t bytes = 0;
  std::map<NodeIndex, std::vector<Rank>> ranks_at;
  std::set<Rank> restart;
};

struct Process {
  RecoveryNumber generation = 0;  ///< recovery that it last went on in, or was started by
  RecoveryNumber said_in = 0;     ///< the same, or a later one in which it has stayed: its output says so
  RecoveryNumber incarnation = 0;
  bool running = false;           ///< else it stands still within a recovery
  bool stopped = false;           ///< by its daemon, which is cut off
  bool stuck = false;             ///< waits for a message that was lost
  bool pinned = false;            ///< has been told that the wave that it has asked for is committed
  bool released = false;          ///< and has said that it needs it no more
  std::uint64_t progress_ms = 0, offset = 0, seen = 0;
  std::uint64_t progressed_us = 0;  ///< when it last did; for a watchdog
  std::set<Rank> stuck_with = {};   ///< its messages: when one of these fails, it knows that it waits in vain
};

/** A spawned process. */
struct Child {
  static constexpr RecoveryNumber kStands = ~0u;  ///< as `since`: within a recovery
  RecoveryNumber since = 0;      ///< recovery that it last went on in, or was started in
  std::uint64_t lasting_ms = 0;  ///< from then on
};

struct Cluster::Daemon {
  bool host = true;    ///< the machine is on
  bool alive = false;  ///< the daemon runs
  bool cut = false, linked = false, full = false, keeps_none = false;
  std::string instance;
  RecoveryNumber recovery = 0;
  RecoveryNumber cleared = 0;  ///< the processes of ranks that this recovery has moved away have ended
  bool stays = false;          ///< in the newest recovery its ranks run on
  std::uint64_t lease_us = 0;  ///< the ranks may run until then
  std::map<Rank, Process> ranks;
  std::map<Rank, std::pair<Process, int>> ended;  ///< with their wait status
  std::map<Rank, Child> spawned;
  std::map<std::pair<WaveNumber, Rank>, Image> images;
  /** Of a wave: the images of all nodes of the set as they were listed, and the exclusive or of the nodes' first, second … images. */
  struct Parity {
    std::vector<std::pair<NodeIndex, std::vector<Rank>>> of;
    std::vector<std::uint64_t> values;
  };
  std::map<WaveNumber, Parity> parity;
  std::map<Rank, KeptCopy> copies;  ///< of kept memory; `bytes` has the rank's progress then
  std::unique_ptr<Relay> relay;
  bool relay_ticks = false;
  LostLinks lost_links;
  bool may(const Process& process) const { return host && alive && process.running && !process.stopped; }
};

}  // namespace reprise::job::sim
