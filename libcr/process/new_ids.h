// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Process and thread ids that are not those of the image. */
#include <map>

#include <sys/types.h>

#include "image/state.pb.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/**
 * Give the image's threads other ids, all at once, in everything the kernel keeps that names one of them: timers, owners
 * of descriptors, pidfds, senders of pending signals, its session and group. Memory names what it named.
 * @param ids  each thread's id in the image -> its new one
 */
void rename_ids(Process& image, const std::map<pid_t, pid_t>& ids);

/** Give them the ids by which they knew themselves, where they lived in another pid namespace than the checkpointer. */
void take_own_ids(Process& image);

/** Make all threads but the first in the blank process, with ids of the kernel's choosing, and rename those of the image. */
void make_threads_with_new_ids(Session& session, Remote& remote, Process& image);

}  // namespace reprise
