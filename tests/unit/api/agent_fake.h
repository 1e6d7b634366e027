// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file A fake module for the agent; the test acts as the session. */
#include <cstdint>
#include <optional>

#include "cr.h"

namespace fake {

/** Set the result of opening the device: 0 or an errno. */
void set_open_error(int err);
/** Set the result of a notification to another process's agent: 0 or an errno. */
void set_busy(int err);
/** Set the path of the image that the agent receives. @p path must remain valid. */
void set_origin(const char* path);
/** @return the failure of a callback after the outcome that the agent reports within @p ms; 0 if none */
int failure(int ms = 10'000);

/** Notify the process, as a session does. Returns at once. */
void notify(std::uint32_t phase, std::uint32_t flags = 0, int requester = 4711);
/** Wait until the agent is ready. @return its status, nullopt if it takes longer than @p ms */
std::optional<int> ready(int ms = 10'000);
/** Set what AGENT_READY returns; then wait until the agent waits again (unless @p wait is false). */
void outcome(std::uint32_t phase, bool wait = true);
/** Wait until the agent is in AGENT_WAIT. @return false on timeout */
bool idle(int ms = 10'000);

/** notify(), ready() and outcome(), in a thread with all signals blocked. @return the status from ready() */
int serve(std::uint32_t phase_after, std::uint32_t flags = 0, int requester = 4711);

}  // namespace fake
