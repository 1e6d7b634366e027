// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Signal dispositions and pending signals. */
#include <sys/types.h>

#include "image/state.pb.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/**
 * Save the dispositions that are not the default, the signals pending for the process and those pending for single
 * threads. Target frozen. Call it after collect_threads().
 */
void collect_signals(Session& session, Process& process);

/** As above, with @p data and @p threads that the caller already has from the module. */
void collect_signals(Session& session, const cr_process& data, const std::vector<cr_thread>& threads,
                     Process& process);

/**
 * Restore the dispositions and the signals pending for the process. If anything pending differs, drop the signals that
 * arrived since the checkpoint, also those of threads: call restore_thread_signals() after this.
 */
void restore_signals(Session& session, Remote& remote, const Process& image, RestoreMode mode, Report& report);

/** Restore the signals pending for one thread of the image, which must exist and be parked. */
void restore_thread_signals(Session& session, Remote& remote, const Thread& thread, RestoreMode mode, Report& report);

}  // namespace reprise
