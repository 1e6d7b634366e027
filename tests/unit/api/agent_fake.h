// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file A module for the agent to talk to: the test is the session. */
#include <cstdint>
#include <optional>

#include "cr.h"

namespace fake {

/** What opening the device gives: 0 or an errno. */
void set_open_error(int err);
/** What asking for another process's agent gives: 0 or an errno. */
void set_busy(int err);
/** Path of the image that the agent is told of; it must stay. */
void set_origin(const char* path);
/** What the agent has said of callbacks behind the outcome; 0 when it has said nothing in time. */
int failure(int ms = 10'000);

/** A session notifies the process. Returns at once. */
void notify(std::uint32_t phase, std::uint32_t flags = 0, int requester = 4711);
/** Wait until the agent is ready. @return its status, nothing when it takes longer than @p ms */
std::optional<int> ready(int ms = 10'000);
/** What AGENT_READY returns; then wait until the agent waits again (unless @p wait is false). */
void outcome(std::uint32_t phase, bool wait = true);
/** Wait until the agent is in AGENT_WAIT. @return false when it is not in time */
bool idle(int ms = 10'000);

/** notify, ready, outcome, on a thread that is not interrupted. @return the status the agent was ready with */
int serve(std::uint32_t phase_after, std::uint32_t flags = 0, int requester = 4711);

}  // namespace fake
