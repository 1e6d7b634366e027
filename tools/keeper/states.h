// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The snapshots of one process, and what the commands do with them. */
#include <map>
#include <memory>

#include "image_file.h"
#include "pause_command.h"
#include "base/recent.h"
#include "request/snapshot.h"
#include "session/session.h"
#include "snapshot_options.h"
#include "tree.h"

namespace reprise::snapshots {

class States {
 public:
  explicit States(pid_t pid) : pid_(pid) {}

  /** Do what cr_snapshot asks for, and print the result. Throws Error. @param requester  who asks, for callbacks */
  void carry_out(const Options& options, pid_t requester);
  /**
   * Do what cr_pause asks for, and print the result: roll back to the kept state of the image; if there is none, with
   * --keep, to the image. Throws Error.
   * @return false: nothing is kept of this image, and nothing was done
   */
  bool pause(PauseCommand& command, pid_t requester);
  bool empty() const { return tree_.nodes().empty(); }

 private:
  /** Each has a session of its own, which holds one snapshot. */
  struct State {
    std::unique_ptr<Session> session;
    std::unique_ptr<Snapshot> snapshot;  // uses the session: destroyed first
    ImageFile image;                     // whose state it is; of none if the snapshot was taken
  };
  void take(const Options& options, pid_t requester);
  void list(const Options& options) const;
  void go_to(const Options& options, pid_t requester);
  void drop(const Options& options);
  void save(const Options& options);
  /** @return the number of the kept state of @p image, 0: none */
  unsigned kept(const ImageFile& image) const;
  /** @return false: its pages were dropped when memory ran out, and so it is forgotten */
  bool pause_to_kept(const PauseCommand& command, unsigned number, Report& report);
  void pause_and_keep(const PauseCommand& command, Report& report);
  void forget(unsigned number);
  /** Note that a state is used. Those that were not used for longer take less memory from now on. */
  void used(unsigned number);
  std::string title(unsigned number) const;
  void say(const Options& options, const Report& report, unsigned number, const std::string& sentence) const;

  const pid_t pid_;
  Tree tree_;
  std::map<unsigned, State> states_;
  Recent recent_{Snapshot::kAtHand};
};

}  // namespace reprise::snapshots
