// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Job control stops: SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU. */
#include <span>

#include "image/state.pb.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/** Is the process stopped, or is a SIGSTOP pending? Target frozen; @p now from CR_IOC_THREADS. */
bool is_stopped(const cr_process& data, std::span<const cr_thread> now);

/**
 * Send SIGCONT if the target is stopped and the image's process was not. SIGCONT may stay pending: call it before the
 * pending signals are restored.
 */
void end_stop(Session& session, Remote& remote, const Process& image);

/**
 * Send SIGSTOP if the image's process was stopped and the target is not. It takes effect before a user instruction
 * runs. SIGSTOP discards a pending SIGCONT. Call it after the pending signals are restored.
 */
void begin_stop(Session& session, Remote& remote, const Process& image);

}  // namespace reprise
