// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The threads of a process: which there are, and what belongs to each beside its registers. */
#include <span>
#include <vector>

#include "image/format.h"
#include "image/state.pb.h"
#include "restore/report.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/** Save threads @p now (of CR_IOC_THREADS) and their registers. Target frozen. */
void collect_threads(Session& session, std::span<const cr_thread> now, Process& process, std::vector<ThreadRegs>& regs);

/** Which threads have to go and which have to be made so that they are those of the image. */
struct ThreadPlan {
  std::vector<cr_thread> surplus;  ///< born since
  std::vector<int> missing;        ///< index into the image's threads: ended since
};
ThreadPlan plan_threads(std::span<const cr_thread> now, const Process& image);

/**
 * Make the missing threads, parked, with their tids; before the commit, for this can fail.
 * Throws Error (refused, temporary); threads that were made are ended again then.
 */
void make_threads(Session& session, Remote& remote, const Process& image, const ThreadPlan& plan);

/** Make one thread, parked. @return its tid, of the kernel's choosing, or -errno */
std::int64_t make_thread(Remote& remote);

/** End what make_threads made: the request has failed before its commit. */
void unmake_threads(Session& session, Remote& remote);

/** End the threads that are not in the image. Before the memory changes under them. */
void end_threads(Remote& remote, const ThreadPlan& plan);

/**
 * Take rseq areas off the kernel's hands which lie in memory that will be made anew, or
 * elsewhere in the image: the kernel writes to them whenever a thread makes a call.
 */
void detach_rseq(Session& session, Remote& remote, const Process& image, const std::vector<cr_range>& remade);

/** Alternate stack, robust list, rseq, name, scheduling … where they differ. Memory is back by now. */
void restore_threads(Session& session, Remote& remote, const Process& image, Report& report);

/** For messages: "thread 1234 (name)". */
std::string thread_name(const Thread& thread);

}  // namespace reprise
