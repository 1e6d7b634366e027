// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Restarting with other process and thread ids than those of the image. */
#include <map>

#include <sys/types.h>

#include "image/state.pb.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/** Do threads with new ids keep those that they have in their own pid namespace? */
enum class OwnIds { change, keep };

/**
 * Replace thread ids in all kernel state of the image: timers, owners of descriptions, pidfds, /proc paths, senders of
 * pending signals, session and process group. Ids that the program keeps in memory stay as they are.
 * @param ids  each thread's id in the image -> its new id
 * @param own_ids  keep: what the program itself tells the kernel stays as it is, and the threads have the old ids as own_tid.
 *                 Paths below /proc are renamed: it is mounted for the pid namespace of ours
 */
void rename_ids(Process& image, const std::map<pid_t, pid_t>& ids, OwnIds own_ids = OwnIds::change);

/** Replace the ids by those of the process's own pid namespace, if the checkpoint was taken from another one. */
void take_own_ids(Process& image);

/**
 * Make all threads but the first in the new process, with ids that the kernel chooses, and rename_ids() those of the
 * image. Throws Error (temporary) if a thread cannot be made.
 * @return each thread's id as the program knew it -> its new id
 */
std::map<pid_t, pid_t> make_threads_with_new_ids(Session& session, Remote& remote, Process& image);

/**
 * Make all threads but the first in a new process that is in a pid namespace of its own, with the ids of the image there,
 * and rename_ids() to those that they have in ours. Throws Error (temporary) if a thread cannot be made.
 */
void make_threads_with_own_ids(Session& session, Remote& remote, Process& image);

/**
 * Write the new ids where the C library keeps those of its threads. That is where the kernel clears them when a thread
 * ends (set_tid_address(2)), if the old id is there: some libraries have other things cleared. Ids in locks that are held
 * stay as they are. The pages must be restored, and @p image have its new ids.
 */
void tell_new_ids(const Session& session, const Process& image, const std::map<pid_t, pid_t>& ids);

}  // namespace reprise
