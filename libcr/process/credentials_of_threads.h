// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Groups, ids, capabilities, securebits and no_new_privs of every thread. The kernel keeps them per thread. Servers
 * that act for clients change those of one thread by raw system calls, which bypass the C library's setxid broadcast.
 */
#include <span>

#include "image/state.pb.h"
#include "restore/report.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/** Save the credentials of @p now, all threads from CR_IOC_THREADS, in @p process, which has them. Target frozen. */
void collect_credentials(Session& session, std::span<const cr_thread> now, Process& process);

/** Restart: throw Error (refused) if the caller may not give a process the saved credentials. */
void check_credentials(const Process& image);

/**
 * Pause: throw Error (refused) if a thread has given up credentials since the checkpoint that it cannot regain. For a
 * thread that is made again, those of the leader count. Target frozen.
 */
void check_credentials_live(Session& session, const Process& image);

/**
 * Set what differs. Call it after the threads are made: clone3 with set_tid needs capabilities that this may drop.
 */
void restore_credentials(Session& session, Remote& remote, const Process& image, Report& report);

}  // namespace reprise
