// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * A checkpoint that stays in memory: pages in the kernel, copy-on-write, all else in
 * this process. Lives as long as the session; rolled back to as often as one likes.
 */
#include <memory>
#include <string>

#include "request/options.h"
#include "request/state.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/session.h"

namespace reprise {

struct SnapshotOptions {
  unsigned timeout_ms = 0;        ///< to stop all threads; 0: 5 s
  unsigned agent_timeout_ms = 0;  ///< for the program's own callbacks; 0: 60 s
  unsigned request_flags = 0;     ///< given to the program's callbacks
  bool notify = true;             ///< have the program's callbacks run
};

class Snapshot {
 public:
  /** Take one of the process that @p session is bound to; replaces the session's snapshot. */
  static Snapshot take(Session& session, const SnapshotOptions& options = {});
  ~Snapshot();
  Snapshot(Snapshot&& other) noexcept;
  Snapshot& operator=(Snapshot&&) = delete;

  /** Roll back to it, in place. Throws Error as pause() does. */
  Report rollback(const RestoreOptions& restore = {});
  /** Write it out as an image. @return what a checkpoint would tell */
  Report write(const std::string& path, bool clobber = true, bool sync = true, const Progress& progress = {});

  /** What taking it was like. */
  const Report& report() const { return report_; }
  const CheckpointId& id() const { return state_->id; }

 private:
  Snapshot(Session& session, const SnapshotOptions& options);
  Session* session_;
  SnapshotOptions options_;
  std::unique_ptr<State> state_;
  Report report_;
};

}  // namespace reprise
