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
 * Save the dispositions that are not the default, the signals pending for the process and, in the threads that
 * are already in @p process, those pending for them alone. Target frozen; call it after the threads were collected.
 */
void collect_signals(Session& session, Process& process);

/** As above, from what the caller has already asked the module for. */
void collect_signals(Session& session, const cr_process& data, const std::vector<cr_thread>& threads,
                     Process& process);

/**
 * Dispositions back; pending signals of the process back. Where anything pending differs, signals which arrived
 * since are dropped, also those of the threads: call restore_thread_signals after this.
 */
void restore_signals(Session& session, Remote& remote, const Process& image, RestoreMode mode, Report& report);

/** Signals pending for one thread of the image, which must exist now (made or kept) and be parked. */
void restore_thread_signals(Session& session, Remote& remote, const Thread& thread, RestoreMode mode, Report& report);

}  // namespace reprise
