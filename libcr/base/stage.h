// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The stages of a request. Each thread records its current stage, and an Error carries it. */

namespace reprise {

/**
 * In order of execution; a request skips the stages that it does not need. Before `commit` nothing has changed and an
 * error leaves the process as it was. After `commit` an error ends the process.
 */
enum class Stage {
  none,
  open,         ///< The image, or the file for it, is opened. Refusals that depend on the image alone happen here.
  child,        ///< Restart: a blank process with the image's pid is created.
  callbacks,    ///< The program's own callbacks run.
  freeze,       ///< The threads stop.
  collect,      ///< Checkpoint: the state of the process is read.
  snapshot,     ///< Checkpoint: the pages are marked, so that the process can continue while they are written.
  compare,      ///< Differences are found; those that cannot be restored are refused. Files are opened.
  verify,       ///< The pages that will be restored are compared with their checksums.
  birth,        ///< Threads that have ended since the checkpoint are created again.
  commit,       ///< The point of no return.
  surplus,      ///< Threads that were created after the checkpoint exit.
  mappings,     ///< The mappings of the address space are restored.
  pages,        ///< The content of private memory is restored.
  hold,         ///< Restart: wait for the caller. Nothing that other processes can see has changed yet.
  descriptors,  ///< Descriptors and the content of pipes are restored.
  shared,       ///< The content of shared memory and of mapped files is restored.
  process,      ///< Working directory, umask, signals, timers.
  threads,      ///< State of each thread, then credentials, then registers.
  outcome,      ///< The program's callbacks are notified.
  thaw,         ///< The threads continue.
  write,        ///< Checkpoint: the image is written.
};

/** @return the name that messages, JSON and CR_FAULT use, in lower case; "" for Stage::none */
const char* stage_name(Stage stage);

/** Set the current stage of this thread. In a test build throws, or sleeps, as CR_FAULT asks (see fault_here()). */
void enter(Stage stage);

inline thread_local Stage stage_of_thread = Stage::none;

/** @return the current stage of this thread */
inline Stage current_stage() { return stage_of_thread; }

/**
 * Fault injection of a test build (REPRISE_FAULTS), called before each request to the module. The environment variable
 * CR_FAULT selects the fault; it occurs once in a process:
 * STAGE fails when the stage begins, STAGE:memory throws std::bad_alloc there, STAGE:sleep=MS sleeps MS milliseconds
 * there, and STAGE:N fails the N-th request to the module in that stage.
 * @return whether the request that follows has to fail
 */
#ifdef REPRISE_FAULTS
bool fault_here();
#else
constexpr bool fault_here() { return false; }
#endif

}  // namespace reprise
