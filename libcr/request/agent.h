// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The program's own callbacks around a request. */
#include "session/session.h"

namespace reprise {

/** Has the callbacks run when made; without another outcome the program hears that nothing was done. */
class Agent {
 public:
  Agent(Session& session, unsigned phase, unsigned flags, unsigned timeout_ms, const std::function<void()>& told = {})
      : session_(session), flags_(flags), present_(session.notify(phase, flags, timeout_ms, told)) {}
  ~Agent() {
    if (!present_ || told_) return;
    try {
      session_.outcome(CR_PHASE_ABORTED, flags_);
    } catch (const Error&) {  // the process is gone, and with it whoever could hear it
    }
  }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  bool present() const { return present_; }
  /** @p saved: the image has an agent, which hears of it even when the process had none any more. */
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
