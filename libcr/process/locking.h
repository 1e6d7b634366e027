// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Locked memory (mlock), and flags that future mappings of the program get (mlockall, PR_SET_MEMORY_MERGE). */
#include "image/state.pb.h"
#include "process/mapping_plan.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/** The flags that new mappings get by default, as CR_VMA_*. */
struct FutureFlags {
  std::uint64_t now = 0, wanted = 0;
};

/**
 * End the program's MCL_FUTURE if mappings have to be made or it has to change: it would lock and populate every new
 * mapping. Only munlockall() ends it, so @p plan is changed to lock everything that the image has locked. Call it
 * before mappings are made.
 * @param future  future of struct cr_process
 * @return the flags in force afterwards, and those to restore
 */
FutureFlags end_future_locks(Remote& remote, std::uint64_t future, MappingPlan& plan, const Process& image);

/**
 * Lock and unlock what differs, then restore the flags of future mappings. Failures are warnings. Call it after the
 * pages are restored, because locking populates missing pages.
 * @param future  as end_future_locks() returned it
 */
void restore_locks(Session& session, Remote& remote, const FutureFlags& future, const MappingPlan& plan,
                   const Process& image, Report& report);

}  // namespace reprise
