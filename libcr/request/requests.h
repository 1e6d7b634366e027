// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The requests: checkpoint, pause, restart. Each throws Error. */
#include "request/options.h"
#include "restore/report.h"

namespace reprise {

/**
 * Save a running process. It goes on (or gets the signal that was asked for) and the image is
 * written behind its back. On failure there is no image and the process runs on as before.
 */
Report checkpoint(const CheckpointOptions& options);

/**
 * Roll a live process back, in place, to an image of it. When something stands in the way nothing has
 * changed; a failure half way ends the process (Error permanent says so).
 */
Report pause(const PauseOptions& options);

/**
 * Make a new process from an image: a child of the caller, Report.pid, which must be waited for.
 * On failure there is no such child.
 */
Report restart(const RestartOptions& options);

}  // namespace reprise
