// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Starts the daemons: each with ssh or as a child process on this host, or many with one srun. */
#include <sys/types.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "job/daemon_start.h"
#include "job/messages.pb.h"

namespace reprise::job {

struct LaunchOptions {
  std::string agent = "crd";
  bool srun = false;
  std::string job_directory;      ///< must exist on every node if it is shared; "": it is not shared
  std::string working_directory, program;  ///< must exist on every node as well
  std::vector<std::string> path;  ///< directories in which to look for the agent, in addition to PATH
};

/** @return the script that runs on a node; public for tests */
std::string remote_script(const LaunchOptions& options);

/** What srun says of the end of a task, or of several: "srun: error: node2: task 1: Exited with exit code 5". */
struct TaskEnd {
  std::string hosts;  ///< in Slurm's form: "node[2-3]"
  std::string how;    ///< "Exited with exit code 5", "Killed"
};
/** @return nothing if @p line is not such a message; public for tests */
std::optional<TaskEnd> task_end(const std::string& line);

class Launcher {
 public:
  /** @param certain whether the daemon is known to have ended @param why the reason as text */
  using Ended = std::function<void(std::uint32_t node, bool certain, const std::string& why)>;
  /** @param host of the daemon, "" if it says that itself */
  using Line = std::function<void(const std::string& host, const std::string& line)>;

  Launcher(asio::io_context& loop, LaunchOptions options, Ended ended, Line line);
  ~Launcher();
  Launcher(const Launcher&) = delete;

  /**
   * By ssh, only a few daemons are started at the same time: the others wait until these have sent Hello. One srun starts all
   * that are wanted at a moment: each srun costs Slurm's controller a job step.
   */
  void start(const Node& node, DaemonStart start);
  /** The daemon has sent Hello. */
  void said_hello(std::uint32_t node);
  void stop(std::uint32_t node);
  /** A child has ended (SIGCHLD). */
  void reap();
  bool any() const { return !links_.empty(); }

 private:
  /** A process that has started one daemon or, as srun, several. */
  struct Link {
    pid_t pid = -1;
    bool local = false;
    std::map<std::string, std::uint32_t> nodes;  ///< whose daemons it runs, by host
    std::set<std::uint32_t> starting;
    std::string rest, last;  ///< of its standard error
    std::string input;       ///< for its standard input
    std::unique_ptr<asio::posix::stream_descriptor> to, output;
  };
  struct Wanted {
    Node node;
    DaemonStart start;
  };
  void begin_next();
  void begin(std::vector<Wanted> wanted);
  void write(const std::shared_ptr<Link>& link);
  void read(const std::shared_ptr<Link>& link);
  void take_line(const std::shared_ptr<Link>& link, const std::string& line);
  void ended(const std::shared_ptr<Link>& link, std::uint32_t node, bool certain, const std::string& why);
  std::string words(const Link& link, int status, bool starting) const;

  asio::io_context& loop_;
  LaunchOptions options_;
  Ended ended_;
  Line line_;
  std::map<std::uint32_t, std::shared_ptr<Link>> links_;  ///< by node
  std::deque<Wanted> waiting_;
  bool gathering_ = false;
};

}  // namespace reprise::job
