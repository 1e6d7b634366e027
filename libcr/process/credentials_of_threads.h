// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Groups, ids, capabilities, securebits and no_new_privs of every thread: the kernel keeps them per thread, and servers
 * that act for clients change them by raw system calls, which the C library does not extend to the others.
 */
#include <span>

#include "image/state.pb.h"
#include "restore/report.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/** Save them of @p now, all threads of CR_IOC_THREADS, which are in @p process in that order. Target frozen. */
void collect_credentials(Session& session, std::span<const cr_thread> now, Process& process);

/** Restart: refuse what the caller may not give a process. */
void check_credentials(const Process& image);

/** Pause: refuse what a thread, or the leader for those that are made again, has given up since. Target frozen. */
void check_credentials_live(Session& session, const Process& image);

/**
 * Set what differs. The last step before thaw: making threads with given tids needs the rights that this may give up.
 */
void restore_credentials(Session& session, Remote& remote, const Process& image, Report& report);

}  // namespace reprise
