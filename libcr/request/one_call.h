// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Rollback to a snapshot by one call of the module (CR_IOC_ROLLBACK), for processes of which little has changed. */
#include <optional>
#include <span>
#include <vector>

#include "request/state.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/session.h"

namespace reprise {

class OneCall {
 public:
  /**
   * Prepare the calls that roll back to a snapshot.
   * @param state        of the snapshot; must outlive the result
   * @param own_channel  as in SnapshotOptions
   * @return nothing if the state has parts that the module does not compare: pairs of Unix sockets, timers, terminals, shared
   *         memory of its own …
   */
  static std::optional<OneCall> of(const State& state, bool own_channel);

  /** Whether it can be used with this option. */
  bool fits(SharedMemory shared_memory) const { return !only_keeping_ || shared_memory == SharedMemory::keep; }

  /**
   * Roll back, unless more has changed than pages, registers and positions in files, and more was added than memory and
   * descriptors. Target not frozen.
   * @return false: more has changed. Then the target is frozen, and all is as it was. Throws Error: the target is not frozen,
   *         and all is as it was; except after the commit, with broken()
   */
  bool roll_back(Session& session, unsigned timeout_ms, Report& report);
  /**
   * Write the request to memory where a thread of the process itself can make it: a struct cr_rollback, and behind it what
   * it points to. What it restores must not contain that memory.
   * @param room  memory that the process shares with us
   * @param at    its address in the process
   * @return false: there is not enough room
   */
  bool place(std::span<char> room, std::uint64_t at) const;
  /** Whether roll_back() has failed after the commit. The target is frozen then. */
  bool broken() const { return request_.result == CR_ROLLBACK_BROKEN; }

 private:
  explicit OneCall(const State& state) : state_(&state) {}
  /** The request, but for what it points to. */
  cr_rollback request() const;

  const State* state_;
  bool only_keeping_ = false;  ///< other processes map its shared memory
  std::vector<cr_range> scope_;
  std::vector<cr_range> mappings_;
  std::vector<cr_fd_pos> descriptors_;
  std::vector<cr_thread_regs> threads_;
  cr_rollback request_{};
};

}  // namespace reprise
