// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Stops by a signal (job control): SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU. */
#include <span>

#include "image/state.pb.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/** Is the process stopped, or will it be before it runs on? Target frozen; @p now of CR_IOC_THREADS. */
bool is_stopped(const cr_process& data, std::span<const cr_thread> now);

/**
 * Where the image's process was not stopped, and this one is: SIGCONT. That may be left pending, so it comes before the
 * pending signals are restored.
 */
void end_stop(Session& session, Remote& remote, const Process& image);

/**
 * Where the image's process was stopped, and this one is not: SIGSTOP, which takes effect before a user instruction
 * runs. It would take a pending SIGCONT away, and comes after the pending signals were restored.
 */
void begin_stop(Session& session, Remote& remote, const Process& image);

}  // namespace reprise
