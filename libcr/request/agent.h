// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The program's own callbacks around a request. */
#include "session/session.h"

namespace reprise {

/**
 * Runs the program's callbacks on construction. The destructor reports CR_PHASE_ABORTED to the program unless outcome()
 * was called.
 */
class Agent {
 public:
  Agent(Session& session, unsigned phase, unsigned flags, unsigned timeout_ms, const std::function<void()>& told = {})
      : session_(session), flags_(flags), present_(session.notify(phase, flags, timeout_ms, told)) {}
  ~Agent() {
    if (!present_ || told_) return;
    try {
      session_.outcome(CR_PHASE_ABORTED, flags_);
    } catch (const Error&) {  // the process has exited
    }
  }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  bool present() const { return present_; }
  /**
   * Report the outcome to the program's agent.
   * @param saved  the image has an agent: report to it even if the process had none before the rollback
   */
  void outcome(unsigned phase, bool saved = false) {
    if (present_ || saved) session_.outcome(phase, flags_);
    told_ = true;
  }

 private:
  Session& session_;
  unsigned flags_;
  bool present_, told_ = false;
};

}  // namespace reprise
