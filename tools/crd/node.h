// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What the parts of the daemon share: the node, its ranks, and ways to reach crrun. */
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/thread_pool.hpp>

#include "crd/pmix_host.h"
#include "crd/process.h"
#include "crd/rank_socket.h"
#include "crd/streams.h"
#include "crd/tool.h"
#include "job/daemon_start.h"
#include "job/messages.pb.h"

namespace reprise::crd {

/** A rank of this node. */
struct Rank {
  std::uint32_t number = 0;
  std::uint32_t incarnation = 0;
  pid_t pid = -1;                    ///< of the rank itself, -1: none
  std::unique_ptr<Process> process;  ///< the rank, when it was started by us
  std::unique_ptr<Tool> restarter;   ///< cr_restart, its parent, when it was made from an image
  bool started = false;              ///< its program runs
  bool exited = false, finalized = false;
  int status = 0;                    ///< of wait()
  std::vector<std::string> addresses;  ///< where its transport listens; empty before that is known
  std::unique_ptr<Output> outputs[2];
  std::unique_ptr<Input> input;      ///< nullptr: /dev/null

  bool alive() const { return pid > 0 && !exited; }
};

/** A namespace of processes that the job has spawned. They are among the node's ranks, by numbers behind the job's own. */
struct Spawned {
  job::SpawnBegin message;
  std::unique_ptr<RankSocket> socket;  ///< for their transport, which knows itself by the rank in its namespace
};

std::uint64_t unix_ns();

struct Node {
  explicit Node(asio::io_context& io) : loop(io) {}
  asio::io_context& loop;
  /** One thread for what may wait for a disk: in order, so that a later job finds what an earlier one made. */
  asio::thread_pool disk{1};
  /** For what only reads, and somebody waits for. */
  asio::thread_pool reading{4};
  job::DaemonStart start;
  std::string instance, run_directory;
  bool welcomed = false;
  job::JobSpec job;
  std::vector<job::Node> nodes;
  std::uint32_t index = 0;
  std::uint32_t recovery = 0;         ///< the newest heard of
  std::uint32_t settled = 0;          ///< the newest whose ranks that moved away have ended here; what crrun is told
  std::map<std::uint32_t, std::uint32_t> placement;  ///< rank to node
  std::map<std::uint32_t, std::unique_ptr<Rank>> ranks;  ///< of this node
  std::map<std::uint32_t, Spawned> spawned;  ///< by the number of their rank 0
  std::unique_ptr<RankSocket> socket;
  std::shared_ptr<PmixHost> pmix;
  unsigned pmix_generation = 0;       ///< counts the servers that were started
  std::function<void(job::Up&)> send_up;  ///< fills in who we are

  std::string images() const;  ///< LOCAL/ID
  std::string job_directory() const;  ///< JOBDIR, "" when there is none
  Rank* find(std::uint32_t rank);
  /** Not a process that was spawned: those are in no wave, and no recovery brings them back. */
  bool own(std::uint32_t rank) const { return rank < job.ranks(); }
  void send(job::Up&& message) { send_up(message); }
  /** Tell people, through crrun and the log. */
  void say(job::Log::Level level, const std::string& text, std::int64_t rank = -1);
  /** Run @p work on the disk thread, then @p then with its result in the loop. */
  template <class Work, class Then>
  void on_disk(Work work, Then then) { run_in(disk, std::move(work), std::move(then)); }
  /** The same, beside others. */
  template <class Work, class Then>
  void reading_at_once(Work work, Then then) { run_in(reading, std::move(work), std::move(then)); }

  /** New streams for a rank, from these offsets on, and the descriptors for its process. */
  std::vector<std::pair<int, UniqueFd>> open_streams(Rank& rank, const std::map<std::uint32_t, std::uint64_t>& offsets);
  /** A rank's process has ended, as far as we caused nothing of it. */
  void rank_ended(Rank& rank, int wait_status);
  /** Kill the rank and forget its process; @p then when it is gone. */
  void end_rank(Rank& rank, std::function<void()> then);
  /** Kill a tool, and what it was making. */
  void end_tool(std::unique_ptr<Tool> tool);
  /** Call @p then, from the loop, when all that end_rank() and end_tool() have killed is gone, so that ids are free again. */
  void when_gone(std::function<void()> then);
  /** Have the process of the next PMIx server begin already. */
  void prepare_pmix();
  /** Start a PMIx server in the place of the old one, which is returned. @param where the node of each rank */
  std::shared_ptr<PmixHost> new_pmix(const std::map<std::uint32_t, std::uint32_t>& where,
                                     std::function<void(const std::string& error)> ready);
  std::function<void(const FromPmix&)> pmix_said;  ///< set by the daemon

 private:
  template <class Work, class Then>
  void run_in(asio::thread_pool& pool, Work work, Then then);
  std::unique_ptr<PmixHost> next_pmix_;
  unsigned pmix_processes_ = 0;
  /** One more process is being ended. @return to be called when it is gone */
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
