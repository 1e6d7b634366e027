// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file What a restart of one process and a restart of several copies have in common: how they begin and end. */
#include <cstdint>
#include <future>

#include "image/reader.h"
#include "request/options.h"
#include "request/rollback.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/session.h"

namespace reprise {

/** An image that is open, and checked as far as that needs no process. */
struct OpenedImage {
  Image image;
  Process process;         ///< with the ids that it had in its own pid namespace
  RestoreOptions restore;  ///< the request's, and what RestoreOptions::pipes_from_streams adds
};

/** Throws Error (refused, usage) where the image and the options alone rule a restart out. */
OpenedImage open_for_restart(const RestartOptions& options, Report& report);

/**
 * Stop the new process, and give it what a rollback does not: its origin, its lineage, its session and group.
 * @param restore  the restore's options
 * Throws Error.
 */
void take_over(Session& session, const Process& process, const RestartOptions& options, const RestoreOptions& restore,
               Report& report);

/** Add the warning that new thread ids deserve, if the process has several threads. */
void warn_of_new_ids(const Process& process, Report& report);

/** Verifies the whole image in parallel with the restart. */
class Verification {
 public:
  Verification(const Image& image, const Progress& progress);
  /** Wait for the result. Throws Error if the image is damaged. */
  void finish(Report& report);

 private:
  std::future<void> done_;  // its destructor waits too
};

/** Wait until the caller lets the restart continue (RestartOptions::hold). Throws Error to cancel it. */
void hold_for_caller(const Hold& hold, Report& report);

/** The last steps, when the new process is complete, frozen and committed. All of them throw Error. */
class LastSteps {
 public:
  /** The objects must outlive this. */
  LastSteps(Session& session, Rollback& rollback, const Process& process, const RestartOptions& options, Report& report)
      : session_(session), rollback_(rollback), process_(process), options_(options), report_(report) {}

  void tell();     ///< tell the program's agent that it was restarted
  void let_go();   ///< let it run
  void finish();   ///< wait for the program's callbacks

 private:
  bool callbacks() const { return process_.has_agent() && options_.callbacks_ms != 0; }
  void signal();

  Session& session_;
  Rollback& rollback_;
  const Process& process_;
  const RestartOptions& options_;
  Report& report_;
};

/** Add what is known of the whole restart, which began at @p begin (Stopwatch::now()). */
void report_whole(const Image& image, std::uint64_t begin, Report& report);

}  // namespace reprise
