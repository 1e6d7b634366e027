// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file A child process in the event loop. */
#include <sched.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>

namespace reprise::crd {

struct ProcessSpec {
  std::vector<std::string> argv;
  std::string program;                       ///< "": argv[0]
  std::vector<std::string> environment;      ///< "NAME=value"; its PATH is searched
  std::string directory;                     ///< to start in; "": ours
  std::vector<std::pair<int, int>> fds;      ///< descriptor in the child, descriptor of ours; others are closed
  bool own_session = false;                  ///< so that a signal to its group reaches what it starts, too
  std::optional<cpu_set_t> cpus;
};

/**
 * Dies with us (parent-death signal). To destroy the object kills the process and its group, and nobody
 * is told of the end; it is still waited for.
 */
class Process {
 public:
  /** @param error "" when the program runs, else why it could not be started; then `ended` follows */
  using Started = std::function<void(const std::string& error)>;
  using Ended = std::function<void(int wait_status)>;
  /** Throws std::system_error when there can be no further process. Either function may be empty. */
  Process(asio::io_context& loop, const ProcessSpec& spec, Started started, Ended ended);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const;
  bool running() const;
  /** To the process alone. */
  void signal(int number) const;
  /** Call @p then once it has ended, or at once; beside Ended. */
  void on_end(std::function<void()> then);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/** Whether it is there and has not ended, be it that nobody has waited for it yet. */
bool process_runs(pid_t pid);

/** Send to the group that @p pid leads, if it does, else to it alone. */
void signal_group(pid_t pid, int number);

}  // namespace reprise::crd
