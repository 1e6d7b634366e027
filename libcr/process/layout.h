// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Where the kernel believes program text, heap, stack, arguments … to lie; auxiliary vector; executable. */
#include "image/state.pb.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/** Save it from what the module told. */
void collect_layout(const cr_process& data, Process& process);

/**
 * Bring it back where it differs from @p now. The mappings of the image must be in place.
 * Restart: also what /proc/PID/exe shows, where the caller may do that.
 */
void restore_layout(Session& session, Remote& remote, const cr_process& now, const Process& image,
                    const RestoreOptions& options, RestoreMode mode, Report& report);

/** Whether it may be dumped and traced by its owner. After its credentials: changing those changes this. */
void restore_dumpable(Session& session, Remote& remote, const Process& image, Report& report);

}  // namespace reprise
