// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The requests: checkpoint, pause, restart. Each throws Error. */
#include <map>
#include <vector>

#include "request/options.h"
#include "restore/report.h"

namespace reprise {

/**
 * Save a running process. It continues while the image is written. With a signal, it stays frozen
 * until the image is complete and the signal is sent. On failure there is no image and the process
 * continues as before.
 */
Report checkpoint(const CheckpointOptions& options);

/**
 * Roll a live process back, in place, to an image of it. A failure before the commit leaves the
 * process unchanged. A failure after the commit kills it; the Error is permanent and says so.
 */
Report pause(const PauseOptions& options);

/**
 * Create a new process from an image, Report.pid: a child of the caller or of RestartOptions::parent, which must reap it.
 * On failure it has ended, and is reaped if it is the caller's.
 */
Report restart(const RestartOptions& options);

inline constexpr unsigned kMostCopies = 1000;

/**
 * Create several processes from an image, which is opened and verified once: children of the caller or of
 * RestartOptions::parent, which must reap them, also on failure if it has taken them. They have new ids, or with RestoreOptions::pid_namespace those of the image, each in a pid namespace of its own.
 * They share the pages of their private memory copy-on-write. Either all of them run or, on failure, there are none.
 * @param several      refuse what only one process can have, such as a port
 * @param substitutes  for each copy what RestoreOptions::substitute is for one process, with the same keys; 1 to kMostCopies
 * @return one report for each
 */
std::vector<Report> restart_copies(const RestartOptions& options, const std::vector<std::map<int, int>>& substitutes,
                                   bool several = true);

}  // namespace reprise
