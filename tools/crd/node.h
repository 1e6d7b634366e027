// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The state that the parts of the daemon share: the node, its ranks, and the functions to reach crrun. */
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/thread_pool.hpp>

#include "crd/binding.h"
#include "crd/donors.h"
#include "crd/kept_memory.h"
#include "crd/pmix_servers.h"
#include "crd/process.h"
#include "crd/rank_socket.h"
#include "crd/streams.h"
#include "crd/tool.h"
#include "crd/topology.h"
#include "job/daemon_start.h"
#include "job/messages.pb.h"

namespace reprise::crd {

/** A rank of this node. */
struct Rank {
  std::uint32_t number = 0;
  std::uint32_t incarnation = 0;
  pid_t pid = -1;                    ///< of the rank itself; -1: none
  std::unique_ptr<Process> process;  ///< set if this daemon started the rank
  std::unique_ptr<Tool> restarter;   ///< cr_restart, the rank's parent, if the rank was restarted from an image
  bool started = false;              ///< its program runs
  std::optional<job::LinkLost> broken_link;  ///< messages were lost with this connection: told again to a new crrun
  std::optional<job::PinWave> released;      ///< it needs its pinned wave no more: told again to a new crrun, as the rank says it once
  bool exited = false, finalized = false;
  int status = 0;                    ///< wait status
  std::vector<std::string> addresses;  ///< where its transport listens; empty until it is known
  std::unique_ptr<Output> outputs[2];
  std::unique_ptr<Input> input;      ///< nullptr: /dev/null
  Binding binding;                   ///< its processors
  std::uint32_t saved_in = 0;        ///< wave of the image, on this node, since which the module knows its changes; 0: none
  std::uint32_t imaged_in = 0;       ///< wave of its newest image, or of that which it was restarted from; 0: none
  std::uint32_t restarted_from = 0;  ///< wave of the image that its process was restarted from; 0: it was not
  /** Whether its process is newer than its image of a wave. */
  bool newer_than(std::uint32_t wave) const { return restarted_from >= wave; }
  /** Where its transport counts what it does, a struct cr_rank_counters. */
  struct Counters {
    pid_t pid = -1;
    std::uint64_t address = 0;       ///< 0: it has not called MPI_Init
  } counters;

  bool alive() const { return pid > 0 && !exited; }
};

struct Node;

/**
 * A namespace of processes that the job has spawned. They are in the node's table of ranks; their numbers are above the
 * job's own.
 */
struct Spawned {
  job::SpawnBegin message;
  /** @return the program of a process, by its number */
  const job::SpawnApp& program_of(std::uint32_t number) const;
  /** The path is the same on every node. */
  std::string socket_path(const Node& node) const;
  std::unique_ptr<RankSocket> socket;  ///< for their transport; nullptr: none of them is on this node
  std::size_t awaited = 0;             ///< PMIx servers of this node that have not said yet that they know the namespace
};

/** A process as its peers know it. */
struct ProcessName {
  std::string nspace;
  std::uint32_t rank;
};

std::uint64_t unix_ns();

struct Node {
  explicit Node(asio::io_context& io) : loop(io), donors(io) {}
  asio::io_context& loop;
  /** One thread for work that blocks on a disk: tasks run in order, so that each finds what earlier ones made. */
  asio::thread_pool disk{1};
  /** For tasks that only read, and that a recovery waits for. */
  asio::thread_pool reading{4};
  job::DaemonStart start;
  std::string instance, run_directory;
  bool welcomed = false;
  job::JobSpec job;
  std::vector<job::Node> nodes;
  std::uint32_t index = 0;
  std::uint32_t recovery = 0;         ///< the newest that this daemon knows of
  std::uint32_t own_since = 0;        ///< the one that has last taken back the job's own ranks here, which have stayed since
  std::uint32_t launch_wave = 0;      ///< the newest that had begun when the job's own ranks were launched
  std::uint32_t settled = 0;          ///< the newest whose ranks that moved away have ended here; reported to crrun
  std::map<std::uint32_t, std::uint32_t> placement;  ///< node of each rank
  std::map<std::uint32_t, std::unique_ptr<Rank>> ranks;  ///< of this node
  const Topology topology = Topology::here();
  std::map<std::uint32_t, Spawned> spawned;  ///< by the number of its rank 0
  std::unique_ptr<RankSocket> socket;  ///< of the job's own ranks
  KeptMemory kept;                    ///< of this node's ranks
  UniqueFd lanes;                     ///< the memory that the node's ranks share; none: they do not share any
  std::uint32_t lanes_recovery = ~0u;  ///< the recovery that it was made for
  PmixServers pmix{*this};
  Donors donors;                      ///< of connections to them
  std::function<void(job::Up&)> send_up;  ///< fills in the sender

  std::string images() const;  ///< LOCAL/ID
  std::string job_directory() const;  ///< JOBDIR; "" without --shared
  std::string host() const;  ///< of this node, as the user wrote it
  /** @return where other daemons reach a socket of this one */
  job::Relaying reachable(std::uint16_t port, const std::string& public_key = "") const;
  Rank* find(std::uint32_t rank);
  /** Whether @p rank is not a spawned process. */
  bool own(std::uint32_t rank) const { return rank < job.ranks(); }
  Side side_of(std::uint32_t rank) const { return own(rank) ? Side::own : Side::spawned; }
  /** @return the namespace of a spawned process; nullptr: it is not one that this daemon knows */
  const Spawned* space_of(std::uint32_t number) const;
  ProcessName name_of(std::uint32_t number) const;
  /**
   * @param said the recovery in a message of a rank's transport
   * @return what crrun is to take it for: a rank that stays hears of the recovery only at its end
   */
  std::uint32_t recovery_of(std::uint32_t number, std::uint32_t said) const {
    return own(number) && said >= own_since && said < recovery ? recovery : said;
  }
  /** @return the newest wave that had begun when a process was started: it has missed this one and all before */
  std::uint32_t missed_waves(std::uint32_t number) const;
  /** Whether the transport of a rank of this node is connected. */
  bool hears(std::uint32_t number) const;
  /**
   * Tell the transport of a rank of this node something, if it is connected.
   * @param message begins with a struct cr_rank_message, whose rank is filled in @param descriptor as RankSocket::send()
   */
  void tell(std::uint32_t number, const void* message, std::size_t size, int descriptor = -1) const;
  /** The same for a whole message, whose header is filled in. */
  template <class Type>
  void tell(std::uint32_t number, Type message, cr_rank_type type) const {
    message.head = {static_cast<std::uint32_t>(type), sizeof message, number, recovery};
    tell(number, &message, sizeof message);
  }
  /** Close the connection to the transport of a rank of this node. */
  void hang_up(std::uint32_t number) const;
  void send(job::Up&& message) { send_up(message); }
  /** Report a text to the user through crrun, and log it. */
  void say(job::Log::Level level, const std::string& text, std::int64_t rank = -1);
  /** Run @p work on the disk thread, then @p then with its result in the loop. */
  template <class Work, class Then>
  void on_disk(Work work, Then then) { run_in(disk, std::move(work), std::move(then)); }
  /** The same on the pool for reading, concurrently with other tasks. */
  template <class Work, class Then>
  void reading_at_once(Work work, Then then) { run_in(reading, std::move(work), std::move(then)); }

  /** Open new streams for a rank, counted from these offsets. @return the descriptors for its process */
  std::vector<std::pair<int, UniqueFd>> open_streams(Rank& rank, const std::map<std::uint32_t, std::uint64_t>& offsets);
  /** Give a rank the memory that it shares with the others of the node. It is made anew for each recovery. */
  void give_lanes(std::uint32_t rank);
  /** A recovery in which the job's own ranks keep it. */
  void lanes_stay(std::uint32_t number) {
    if (lanes_recovery == recovery) lanes_recovery = number;
  }
  /** @return to what a rank is bound, in mpirun's words; "": it is not */
  std::string bound_to(const Rank& rank) const { return rank.binding.cpus.any() ? topology.words(rank.binding.cpus) : ""; }
  /** A rank's process has ended, without the daemon having ended it. */
  void rank_ended(Rank& rank, int wait_status);
  /** Kill the rank and drop its process. @p then is called when the process is gone. */
  void end_rank(Rank& rank, std::function<void()> then);
  /** Kill a tool, and the process that it was making. */
  void end_tool(std::unique_ptr<Tool> tool);
  /**
   * Call @p then from the loop when all processes that end_rank() and end_tool() killed are gone: their ids are free
   * again.
   */
  void when_gone(std::function<void()> then);

 private:
  RankSocket* socket_of(std::uint32_t number) const;
  template <class Work, class Then>
  void run_in(asio::thread_pool& pool, Work work, Then then);
  /** Count one more process that is being ended. @return call it when the process is gone */
  std::function<void()> one_dies();
  std::size_t dying_ = 0;
  std::vector<std::function<void()>> awaiting_gone_;
};

template <class Work, class Then>
void Node::run_in(asio::thread_pool& pool, Work work, Then then) {
  asio::post(pool, [this, work = std::move(work), then = std::move(then)]() mutable {
    auto result = work();
    asio::post(loop, [then = std::move(then), result = std::move(result)]() mutable { then(std::move(result)); });
  });
}

}  // namespace reprise::crd
