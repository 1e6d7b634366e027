// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Long work, or waiting, while the target is frozen: the module must hear that its owner is alive. */
#include <chrono>
#include <future>

#include "request/options.h"
#include "session/session.h"

namespace reprise {

/** Wait for @p work and return what it returns, or throw what it throws. */
inline void wait_alive(Session& session, std::future<void>& work) {
  while (work.wait_for(std::chrono::seconds(10)) != std::future_status::ready) session.threads();
  work.get();
}

/** Until @p hold lets go. */
inline void wait_alive(Session& session, const Hold& hold) {
  while (!hold(10'000)) session.threads();
}

}  // namespace reprise
