// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The snapshots of one process, and what the commands do with them. */
#include <map>
#include <memory>

#include "options.h"
#include "request/snapshot.h"
#include "session/session.h"
#include "tree.h"

namespace reprise::snapshots {

class States {
 public:
  explicit States(pid_t pid) : pid_(pid) {}

  /** Do what a command asks for, and print the result. Throws Error. @param requester  who asks, for callbacks */
  void carry_out(const Options& options, pid_t requester);
  bool empty() const { return tree_.nodes().empty(); }

 private:
  /** Each has a session of its own, which holds one snapshot. */
  struct State {
    std::unique_ptr<Session> session;
    std::unique_ptr<Snapshot> snapshot;  // uses the session: destroyed first
  };
  void take(const Options& options, pid_t requester);
  void list(const Options& options) const;
  void go_to(const Options& options, pid_t requester);
  void drop(const Options& options);
  void save(const Options& options);
  std::string title(unsigned number) const;
  void say(const Options& options, const Report& report, unsigned number, const std::string& sentence) const;

  const pid_t pid_;
  Tree tree_;
  std::map<unsigned, State> states_;
};

}  // namespace reprise::snapshots
