// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The kernel's record of a process's layout (mm_struct): addresses of code, data, heap, stack, arguments and
 * environment; auxiliary vector; executable.
 */
#include "image/state.pb.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/** Save the layout that the module reported in @p data. */
void collect_layout(const cr_process& data, Process& process);

/**
 * Restore what differs from @p now. The mappings of the image must be in place.
 * Restart: also set /proc/PID/exe, if the caller may.
 */
void restore_layout(Session& session, Remote& remote, const cr_process& now, const Process& image,
                    const RestoreOptions& options, RestoreMode mode, Report& report);

/** Restore PR_SET_DUMPABLE. Call it after the credentials are set: changing them resets the flag. */
void restore_dumpable(Session& session, Remote& remote, const Process& image, Report& report);

}  // namespace reprise
