// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The process that runs the inputs: started, snapshotted where its runs begin, rolled back behind each. */
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "client.h"
#include "protocol.h"
#include "request/snapshot.h"
#include "session/session.h"

namespace reprise::afl {

/** How the server was started, and so how it starts targets. */
struct Command {
  std::string program;             ///< path of the executable
  std::vector<std::string> words;  ///< its argv
  std::string preload;             ///< LD_PRELOAD of targets
  std::string offset;              ///< see kOffset; empty: not set
};

class Target {
 public:
  /** Start it and wait until its runs can begin. Throws Error. */
  explicit Target(const Command& command);
  /** Kills it. */
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  pid_t pid() const { return pid_; }
  std::uint32_t map_size() const { return ready_.map_size; }
  /** Whether it lives, and still does after @p wait_ms. */
  bool lives(int wait_ms = 0) const;
  /** Run one input. @return its status, as of waitpid(2) */
  int run();
  /** Whether threads may still change the coverage map: then the rollback comes before the answer. */
  bool still_runs() const { return still_runs_; }
  /** Whether it is where a rollback brings it back from: not after a crash. */
  bool can_roll_back() const { return can_roll_back_; }
  /** Whether it has brought itself back. */
  bool rolled_back() const { return rolled_back_; }
  /** Bring it back to where the run began. Throws Error. */
  void roll_back();

 private:
  struct Given;
  void execute(const Command& command, const Given& given);
  void await_ready(const std::string& at);
  /** Wait until all its threads wait: when it begins to run, and after a run. */
  void settle() const;
  void rest();
  /** Kill it, if it has not been reaped. */
  void end();
  /** Wait for its end. @return its status, as of waitpid(2) */
  int reap();

  pid_t pid_ = -1;
  UniqueFd end_, go_, news_;  ///< its pidfd; our ends of the pipes
  Message ready_{};
  Room* room_ = nullptr;  // shared with it
  bool still_runs_ = false, can_roll_back_ = false, rolled_back_ = false;
  int restless_ = 0;  ///< runs in a row at whose end threads did not wait
  std::optional<Session> session_;
  std::optional<Snapshot> snapshot_;
};

}  // namespace reprise::afl
