// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Which parts of a process are as they were when an image was taken, by the module's digests (CR_IOC_DIGEST). */
#include "image/state.pb.h"
#include "session/session.h"

namespace reprise {

/** A rollback neither looks at nor restores what is unchanged. Each member is one area of enum cr_area. */
struct Unchanged {
  bool mappings = false;
  bool descriptors = false;
  bool process = false;
  bool threads = false;
};

/** Save the digests of the frozen target. Call it when nothing of its state is changed any more. */
void collect_digests(Session& session, Process& process);

/** Compare the digests of the frozen target with those of an image. All false when the image has none. */
Unchanged compare_digests(Session& session, const Process& image);

}  // namespace reprise
