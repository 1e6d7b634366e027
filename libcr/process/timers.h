// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Interval timers and POSIX timers, with the time that was left. */
#include "image/state.pb.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/lazy_remote.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/** Save timers. Target frozen. Maps the arena only when the process has POSIX timers. */
void collect_timers(Session& session, LazyRemote& remote, Process& process);

/** As above, with the interval timers from what the caller has already asked the module for. */
void collect_timers(Session& session, const cr_process& data, LazyRemote& remote, Process& process);

/**
 * Refuse POSIX timers that were deleted since and whose identifiers cannot be had again. Target frozen, not
 * committed. Maps the arena only when timers are missing.
 */
void check_timers_live(Session& session, LazyRemote& remote, const Process& image, RestoreMode mode);

/** Bring timers back. The threads of the image must exist: timers may signal one of them. */
void restore_timers(Session& session, Remote& remote, const Process& image, RestoreMode mode, Report& report);

}  // namespace reprise
