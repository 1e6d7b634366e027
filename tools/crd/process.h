// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file A child process in the event loop. */
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>

#include "crd/topology.h"

namespace reprise::crd {

struct ProcessSpec {
  std::vector<std::string> argv;
  std::string program;                       ///< "": argv[0]
  std::vector<std::string> environment;      ///< "NAME=value"; the program is searched in its PATH
  std::string directory;                     ///< working directory; "": the daemon's
  std::vector<std::pair<int, int>> fds;      ///< descriptor in the child, the daemon's descriptor; all others are closed
  bool own_session = false;                  ///< a signal to its group then also reaches its children
  Cpus cpus;                                 ///< processors to bind it to; none: the daemon's
};

/**
 * The child dies with the daemon (parent-death signal). The destructor kills the process and its group; its end is then
 * not reported, but the process is still reaped.
 */
class Process {
 public:
  /** @param error "" when the program runs; otherwise the reason, and `ended` follows */
  using Started = std::function<void(const std::string& error)>;
  using Ended = std::function<void(int wait_status)>;
  /** Throws std::system_error when no process can be created. Either function may be empty. */
  Process(asio::io_context& loop, const ProcessSpec& spec, Started started, Ended ended);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const;
  bool running() const;
  /** Send a signal to the process alone, not to its group. */
  void signal(int number) const;
  /** Whether @p pid is the process of some Process, which reaps it. Call this, and create processes, in one thread only. */
  static bool reaps(pid_t pid);
  /** Call @p then when the process has ended, or at once if it already has; in addition to Ended. */
  void on_end(std::function<void()> then);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/** Whether the process exists and has not ended. A zombie has ended. */
bool process_runs(pid_t pid);

/** @return the children of a process; each is listed by the thread that has made or adopted it */
std::vector<pid_t> children_of(pid_t pid);

/** Send a signal to the group that @p pid leads; if it leads none, to the process alone. */
void signal_group(pid_t pid, int number);

}  // namespace reprise::crd
