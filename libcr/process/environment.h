// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The environment of a process: directories, umask, resource limits, personality, OOM score. */
#include <array>

#include <sys/resource.h>

#include "image/state.pb.h"
#include "restore/on_behalf.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

class NamelessFiles;

/** Save the environment in @p process. Target frozen. */
void collect_environment(Session& session, const cr_process& data, Process& process);

/**
 * Restart: check what needs no frozen target. Throws Error (refused) for a chroot, for credentials that the caller may
 * not give and for a working directory that is missing. Does nothing for a pause.
 */
void check_environment(const Process& image, const RestoreOptions& options, RestoreMode mode);

/**
 * Check what depends on the target. Target frozen, not committed. Throws Error (refused).
 * @param behalf    opens the working directory
 * @param nameless  recreates deleted directories
 * @return the recreated working directory if it had been deleted, else none; pass it to restore_environment()
 */
UniqueFd check_environment_live(Session& session, const Process& image, const RestoreOptions& options, RestoreMode mode,
                                const OnBehalf& behalf, NamelessFiles& nameless);

/**
 * Restore working directory, umask, personality, OOM score, core dump filter, MDWE and subreaper attribute. Callable
 * before or after the threads are made.
 */
void restore_environment(Session& session, Remote& remote, const Process& image, const RestoreOptions& options,
                         RestoreMode mode, const OnBehalf& behalf, Report& report, UniqueFd made_cwd);

using Limits = std::array<rlimit, RLIM_NLIMITS>;

/** @return the target's resource limits */
Limits read_limits(const Session& session);

/**
 * Restore the resource limits; warn about those that cannot be set.
 * @param before     the target's limits before this rollback raised any
 * @param by_itself  the target makes the calls, so that its own rights count; nullptr: we make them, with ours
 */
void restore_limits(const Session& session, const Process& image, const Limits& before, Remote* by_itself,
                    Report& report);

}  // namespace reprise
