// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Starts the daemons: with ssh, with srun, or as a child process on this host. */
#include <sys/types.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
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

class Launcher {
 public:
  /** @param certain whether the daemon is known to have ended @param why the reason as text */
  using Ended = std::function<void(std::uint32_t node, bool certain, const std::string& why)>;
  using Line = std::function<void(std::uint32_t node, const std::string& line)>;

  Launcher(asio::io_context& loop, LaunchOptions options, Ended ended, Line line);
  ~Launcher();
  Launcher(const Launcher&) = delete;

  /** Only a few daemons are started at the same time: the others wait until these have sent Hello. */
  void start(const Node& node, DaemonStart start);
  /** The daemon has sent Hello. */
  void said_hello(std::uint32_t node);
  void stop(std::uint32_t node);
  /** A child has ended (SIGCHLD). */
  void reap();
  bool any() const { return !links_.empty(); }

 private:
  struct Link {
    pid_t pid = -1;
    bool local = false, starting = true;
    std::string rest, last;  ///< of its standard error
    std::unique_ptr<asio::posix::stream_descriptor> output;
  };
  struct Wanted {
    Node node;
    DaemonStart start;
  };
  void begin(const Wanted& wanted);
  void begin_next();
  void read(std::uint32_t node, const std::shared_ptr<Link>& link);
  std::string words(const Link& link, int status) const;

  asio::io_context& loop_;
  LaunchOptions options_;
  Ended ended_;
  Line line_;
  std::map<std::uint32_t, std::shared_ptr<Link>> links_;
  std::deque<Wanted> waiting_;
};

}  // namespace reprise::job
