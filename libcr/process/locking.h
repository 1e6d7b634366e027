// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Memory that is locked (mlock), and what mappings are to get that the program makes later (mlockall, prctl). */
#include "image/state.pb.h"
#include "process/mapping_plan.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

/** What mappings that the program makes later get by themselves, as CR_VMA_*. */
struct FutureFlags {
  std::uint64_t now = 0, wanted = 0;
};

/**
 * Before mappings are made: end the program's MCL_FUTURE where it stands in the way, for it would lock, and fill, each
 * of them, the image's or not. Nothing else does that but unlocking all, so that @p plan locks again what the image has
 * locked.
 * @param future  of struct cr_process
 * @return what is in force afterwards, and what shall be in the end
 */
FutureFlags end_future_locks(Remote& remote, std::uint64_t future, MappingPlan& plan, const Process& image);

/**
 * When the pages are back, for locking reads and fills all that is missing: lock and unlock what differs, then give
 * mappings that are made later what those of the image would have got. What cannot be done is reported.
 * @param future  as end_future_locks() returned it
 */
void restore_locks(Session& session, Remote& remote, const FutureFlags& future, const MappingPlan& plan,
                   const Process& image, Report& report);

}  // namespace reprise
