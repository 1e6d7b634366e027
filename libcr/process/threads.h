// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The threads of a process and their state other than registers. */
#include <span>
#include <vector>

#include "image/format.h"
#include "image/state.pb.h"
#include "restore/report.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/** Save the threads @p now (from CR_IOC_THREADS) and their registers. Target frozen. */
void collect_threads(Session& session, std::span<const cr_thread> now, Process& process, std::vector<ThreadRegs>& regs);

/** Which threads to end and which to make so that the target has those of the image. */
struct ThreadPlan {
  std::vector<cr_thread> surplus;  ///< created since the checkpoint
  std::vector<int> missing;        ///< ended since the checkpoint: indexes into the image's threads
};
/** Compare the threads @p now with those of @p image, by tid. */
ThreadPlan plan_threads(std::span<const cr_thread> now, const Process& image);

/**
 * Make the missing threads, parked, with their tids. Call it before the commit, because it can fail.
 * Throws Error (refused, temporary) after it has ended the threads that it made.
 */
void make_threads(Session& session, Remote& remote, const Process& image, const ThreadPlan& plan);

/**
 * Make all threads but the first of a new process, parked. Throws Error (temporary).
 * @param with_ids  with the tids of the image, for a process in a pid namespace of its own; else the kernel chooses
 * @return the tids in the process's pid namespace, in the order of the image
 */
std::vector<pid_t> make_all_threads(Remote& remote, const Process& image, bool with_ids);

/** End the threads that make_threads() made. For requests that fail before their commit. */
void unmake_threads(Session& session, Remote& remote);

/** End the threads that are not in the image. Call it before their memory changes. */
void end_threads(Remote& remote, const ThreadPlan& plan);

/**
 * Unregister the rseq areas that lie in @p remade memory or at another place in the image: the kernel writes to a
 * registered area whenever the thread returns from a system call.
 */
void detach_rseq(Session& session, Remote& remote, const Process& image, const std::vector<cr_range>& remade);

/**
 * Restore what differs: alternate stack, robust list, rseq, name, timer slack, scheduling and so on. Call it after the
 * memory is restored.
 */
void restore_threads(Session& session, Remote& remote, const Process& image, bool own_rights, Report& report);

/** For messages: "thread 1234 (name)". */
std::string thread_name(const Thread& thread);

}  // namespace reprise
