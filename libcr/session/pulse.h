// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file A sign of life while the target is frozen: the module lets it go, or ends it, when it hears nothing for long. */
#include <chrono>

#include "session/session.h"

namespace reprise {

/** For work that is done piece by piece. */
class Pulse {
 public:
  explicit Pulse(Session& session) : session_(session) {}
  /** Between two pieces, each of them short. */
  void beat() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::seconds(10)) return;
    session_.threads();
    last_ = now;
  }

 private:
  Session& session_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace reprise
