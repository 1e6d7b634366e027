// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file A minimal crrun to test daemons: answers PMIx requests, collects output, and sends what a test asks for. */
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "crrun/routes.h"
#include "job/daemon_start.h"
#include "job/transport.h"

namespace reprise::crd::test {

/** @return the state in /proc/PID/stat ('S', 'T' …); 0: the process has ended, zombies included */
char state_of(int pid);
/** Whether a process is parked by the module. A process that waits for its disk looks the same, but not for long. */
bool parked(int pid);

class FakeCrrun {
 public:
  explicit FakeCrrun(unsigned nodes);
  ~FakeCrrun();

  job::JobSpec job;
  std::vector<job::Placement> placement;
  std::map<std::uint32_t, std::uint32_t> parents;  ///< by node, the parent of each daemon that has one
  /** Start a daemon; its rank socket is in a directory of its own. @return process of the previous daemon, if any */
  pid_t start_daemon(std::uint32_t node);
  /** Start all daemons and wait until they have connected. */
  void start_daemons();
  void place(std::uint32_t rank, std::uint32_t node);
  void launch();
  void send(std::uint32_t node, job::Down down);
  void send_all(const job::Down& down);
  /** @return whether @p condition became true within @p limit */
  bool until(const std::function<bool()>& condition, std::chrono::milliseconds limit = std::chrono::seconds(60));
  bool wait_exits(std::chrono::milliseconds limit = std::chrono::seconds(60));
  /** Take a wave. @return the first error; "" when it is committed */
  std::string wave(std::uint32_t number, bool commit = true);
  /** Go back to a wave. @return the first error */
  std::string recover(std::uint32_t wave, const std::set<std::uint32_t>& restart);
  /** Announce what would follow if a node were lost; wave 0: cancel that. */
  void expect(std::uint32_t wave, const std::set<std::uint32_t>& restart = {});
  void shut_down(bool keep_images = false);
  std::string run_directory(std::uint32_t node) const;
  std::string image_directory(std::uint32_t node) const;  ///< each daemon has a disk of its own
  void kill_daemon(std::uint32_t node);
  pid_t daemon(std::uint32_t node) const { return daemons_.at(node); }
  /** Stop without a message, as if crrun had died; or listen again at the same address, as another crrun. */
  void die();
  void come_back();
  /** Break all connections: what is on its way is lost, and the daemons connect again. */
  void break_connections();

  // Messages that have arrived.
  std::map<std::uint32_t, job::Hello> hellos;
  unsigned hello_count = 0;
  std::map<std::uint32_t, job::RankStarted> started;
  std::map<std::uint32_t, job::RankAddress> addresses;
  std::map<std::uint32_t, int> exits;
  std::map<std::uint32_t, bool> finalized;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> output;  ///< by rank and stream
  std::set<std::pair<std::uint32_t, std::uint32_t>> ended;
  std::map<std::uint32_t, job::RankWave> wave_done;
  std::uint32_t deadline_ms = 60000;  ///< of a recovery, for the daemons
  std::vector<job::Fetch> fetch;      ///< of a recovery
  std::vector<job::KeepCopy> kept;    ///< of a recovery
  std::map<std::uint32_t, job::RankRestored> restored;
  std::map<std::uint32_t, job::RankResumed> resumed;
  std::map<std::uint32_t, job::RankStaged> staged;
  std::vector<job::Abort> aborts;
  std::vector<std::string> logs;
  unsigned fences = 0, heartbeats = 0, contradictions = 0;
  std::map<std::uint32_t, unsigned> relayed_heartbeats;  ///< by node
  job::Routes routes{job::make_job_id()};
  std::map<std::uint32_t, std::string> instances;
  std::map<std::uint32_t, std::uint64_t> heartbeat_ns;
  bool forget_fences = false;
  bool names_all_images = true;  ///< in a recovery; false: only images of restarted ranks, as in large jobs
  bool spawned_take_part = false;  ///< processes that are spawned from now on get a placement, and take part in waves
  bool answers = true;       ///< answer heartbeats and Hello
  bool hears = true;         ///< false: what daemons send is lost, as with a connection that is about to break
  bool is_heard = true;      ///< false: what is sent to daemons is lost
  bool late_answers = false; ///< answer always with the same old time
  std::function<void(const job::Up&)> seen;  ///< called with every message, if set
  bool staging_finished = false, acknowledge = true;
  std::uint32_t recovery = 0;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> ends;  ///< of streams, in this recovery: rank, offset
  std::set<std::uint32_t> moved;
  asio::io_context loop{1};

 private:
  void listen(std::uint16_t port);
  void take(const job::Up& up);
  void deliver(job::Down down);
  void fence(const job::Up& up);
  void fill(job::Recover& message, std::uint32_t wave, const std::set<std::uint32_t>& restart) const;

  unsigned nodes_;
  std::string directory_;
  job::KeyPair keys_, client_keys_;
  std::uint16_t port_ = 0;
  std::unique_ptr<job::Server> server_;
  std::set<std::uint32_t> there_;
  std::map<std::uint32_t, pid_t> daemons_;
  std::vector<int> stdins_;
  void spawn(const job::Up& up);
  struct Spawning {
    std::uint32_t node = 0;
    std::uint64_t question = 0;
    std::set<std::uint32_t> known, started;
    std::vector<std::uint32_t> nodes;
    job::SpawnBegin begin;
    bool answered = false;
  };
  void answer_spawn(std::uint32_t index, Spawning& spawning);
  std::map<std::uint32_t, Spawning> spawns_;
  std::uint32_t last_wave_ = 0;
  std::uint64_t contexts_ = 0;
  std::vector<std::pair<std::uint32_t, job::Lookup>> lookups_;  ///< lookups without an answer yet
  struct Open {
    std::set<std::pair<std::uint32_t, bool>> from;  ///< nodes, and whether it is the part of spawned processes
    std::string data;
  };
  std::map<std::string, Open> fences_;
  std::map<std::uint32_t, std::string> blobs_;
  std::map<std::string, std::string> published_;
  std::vector<std::pair<std::uint32_t, job::ModexRequest>> waiting_;
};

}  // namespace reprise::crd::test
