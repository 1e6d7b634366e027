// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Interval timers (setitimer) and POSIX timers, with the remaining time. */
#include "image/state.pb.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/lazy_remote.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/** Save the timers. Target frozen. Maps the arena only if the process has POSIX timers. */
void collect_timers(Session& session, LazyRemote& remote, Process& process);

/** As above; takes the interval timers from @p data, which the caller already has from the module. */
void collect_timers(Session& session, const cr_process& data, LazyRemote& remote, Process& process);

/**
 * Refuse POSIX timers that were deleted since the checkpoint and whose identifiers the kernel cannot assign again.
 * Target frozen, not committed. Maps the arena only if timers are missing. Throws Error (refused).
 */
void check_timers_live(Session& session, LazyRemote& remote, const Process& image, RestoreMode mode);

/** Restore the timers. The threads of the image must exist: a timer may signal one of them (SIGEV_THREAD_ID). */
void restore_timers(Session& session, Remote& remote, const Process& image, RestoreMode mode, Report& report);

}  // namespace reprise
