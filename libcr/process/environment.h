// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file What surrounds a process: directories, umask, limits, credentials, name. */
#include "image/state.pb.h"
#include "restore/on_behalf.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

class NamelessFiles;

/** Save it. Target frozen. */
void collect_environment(Session& session, const cr_process& data, Process& process);

/** Refusals that need no frozen target: credentials which the caller may not give, paths that are gone. */
void check_environment(const Process& image, const RestoreOptions& options, RestoreMode mode);

/**
 * Refusals that depend on the target. Target frozen, not committed.
 * @param behalf    opens the working directory
 * @param nameless  makes directories that have no name
 * @return the working directory, where it had been deleted and has to be made again; give it to restore_environment()
 */
UniqueFd check_environment_live(Session& session, const Process& image, const RestoreOptions& options, RestoreMode mode,
                                const OnBehalf& behalf, NamelessFiles& nameless);

/** Working directory, umask, name, personality, OOM score, subreaper. Before or after the threads are made. */
void restore_environment(Session& session, Remote& remote, const Process& image, const RestoreOptions& options,
                         RestoreMode mode, const OnBehalf& behalf, Report& report, UniqueFd made_cwd);

/** Resource limits, those that the caller may set; the others are reported. */
void restore_limits(const Session& session, const Process& image, Report& report);

}  // namespace reprise
