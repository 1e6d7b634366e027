// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * A checkpoint in memory: the pages are in the kernel, copy-on-write, everything else is
 * in this process. It lives as long as the session and can be rolled back to repeatedly.
 */
#include <memory>
#include <optional>
#include <string>

#include "request/one_call.h"
#include "request/options.h"
#include "request/packed_state.h"
#include "request/state.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/session.h"

namespace reprise {

class Agent;

struct SnapshotOptions {
  unsigned timeout_ms = 0;        ///< time to stop all threads; 0: 5 s
  unsigned agent_timeout_ms = 0;  ///< time for the program's own callbacks; 0: 60 s
  unsigned request_flags = 0;     ///< passed to the program's callbacks, see base/request_flags.h
  bool notify = true;             ///< run the program's callbacks
  /** The caller is the helper of the process and writes the memory that they share after each rollback. */
  bool own_channel = false;
};

class Snapshot {
 public:
  /**
   * Take a snapshot of the process that @p session is bound to. It replaces the session's previous snapshot.
   * @p session must outlive the result. Throws Error.
   */
  static Snapshot take(Session& session, const SnapshotOptions& options = {});
  /**
   * Roll the process that @p session is bound to back to an image, as pause(), and keep the restored state: a rollback to
   * the result is a pause to the image that opens and reads nothing. options.hold and options.signal are not for this.
   * @param report  receives that of the pause
   * @return nothing if the process is rolled back but its state could not be kept: a warning in @p report says why.
   *         Throws Error as pause()
   */
  static std::optional<Snapshot> load(Session& session, const PauseOptions& options, Report& report);
  ~Snapshot();
  Snapshot(Snapshot&& other) noexcept;
  Snapshot& operator=(Snapshot&&) = delete;

  /** Roll the process back to the snapshot, in place. Throws Error as pause() does. */
  Report rollback(const RestoreOptions& restore = {});
  /**
   * Let the process roll itself back, with its shared memory kept: see OneCall::place().
   * @return false: more would have to be restored than one call can, or there is not enough room
   */
  bool place_one_call(std::span<char> room, std::uint64_t at) const {
    return one_call_ && one_call_->fits(SharedMemory::keep) && one_call_->place(room, at);
  }
  /** Write the snapshot to an image at @p path. @return the report of an equivalent checkpoint. Throws Error. */
  Report write(const std::string& path, bool clobber = true, bool sync = true, const Progress& progress = {});

  /** Keep the state in less memory. The next rollback or write takes it out again, and a little longer. */
  void set_aside();

  /** Timeouts and flags of the rollbacks from now on. */
  void set_options(const SnapshotOptions& options) { options_ = options; }
  /** The report of take(). */
  const Report& report() const { return report_; }
  const CheckpointId& id() const { return state_->id; }
  /** For whoever keeps many: how many of them should not be set aside. */
  static constexpr std::size_t kAtHand = 4;

 private:
  Snapshot(Session& session, const SnapshotOptions& options);
  /** @return false: it cannot, nothing has changed, and the process may be frozen */
  bool rollback_by_one_call(const RestoreOptions& restore, Report& report);
  void rollback_by_steps(const RestoreOptions& restore, Agent* agent, Report& report);
  Session* session_;
  SnapshotOptions options_;
  void take_out();
  std::unique_ptr<State> state_;
  std::optional<PackedState> packed_;  // has what state_ lacks meanwhile
  std::optional<OneCall> one_call_;  // none: more would have to be restored than one call can
  bool has_differed_ = false;        // at the latest rollback by one call
  bool trust_ = true;                // as in RestoreOptions: nobody else has written the state
  Report report_;
};

}  // namespace reprise
