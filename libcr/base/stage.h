// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The steps of a request. Each thread of ours knows in which one it is, so that errors can tell. */

namespace reprise {

/**
 * In the order in which they are made; a request skips those that it does not need. Up to `commit` nothing has
 * changed and an error leaves the process as it was; behind it an error ends the process.
 */
enum class Stage {
  none,
  open,         ///< The image, or the file for it, is opened; what the image alone rules out is refused.
  child,        ///< Restart: a blank process with the image's pid is made.
  callbacks,    ///< The program's own callbacks run.
  freeze,       ///< The threads stop.
  collect,      ///< Checkpoint: the state of the process is read.
  snapshot,     ///< Checkpoint: the pages are marked, so that the process can run on while they are written.
  compare,      ///< What differs is found, and refused where it cannot be brought back; files are opened.
  verify,       ///< The pages that will be put back are checked.
  birth,        ///< Threads that have ended since are made again.
  commit,       ///< The point of no return.
  surplus,      ///< Threads that were born since end.
  mappings,     ///< The address space gets its shape.
  pages,        ///< The content of private memory comes back.
  hold,         ///< Restart: the caller is waited for. Nothing was touched yet that others can see.
  descriptors,  ///< Descriptors, and what is in pipes.
  shared,       ///< The content of shared memory and of files that are mapped.
  process,      ///< Directory, umask, signals, timers.
  threads,      ///< What belongs to single threads; credentials; registers, which come last.
  outcome,      ///< The program's callbacks are told.
  thaw,         ///< The threads run on.
  write,        ///< Checkpoint: the image is written.
};

/** As messages, JSON and CR_FAULT have it, in lower case. "" for none. */
const char* stage_name(Stage stage);

/** This thread begins @p stage. Throws Error where CR_FAULT says so. */
void enter(Stage stage);

inline thread_local Stage stage_of_thread = Stage::none;

/** The stage in which this thread is. */
inline Stage current_stage() { return stage_of_thread; }

/**
 * A test build fails on purpose: CR_FAULT=STAGE when the stage begins, CR_FAULT=STAGE:memory the same for lack of
 * memory, CR_FAULT=STAGE:N at the N-th request to the module in it. Called before each of those. @return whether that is
 * now; once in a process
 */
#ifdef REPRISE_FAULTS
bool fault_here();
#else
constexpr bool fault_here() { return false; }
#endif

}  // namespace reprise
