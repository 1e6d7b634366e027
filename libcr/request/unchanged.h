// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Which parts of a process are as they were when an image was taken, by the module's digests (CR_IOC_DIGEST). */
#include "image/state.pb.h"
#include "restore/options.h"
#include "session/session.h"

namespace reprise {

/** A rollback neither looks at nor restores what is unchanged. Each member is one area of enum cr_area. */
struct Unchanged {
  bool mappings = false;
  bool descriptors = false;
  bool process = false;
  bool threads = false;
  bool content = false;
};

/** Save the digests of the frozen target. Call it when nothing of its state is changed any more. */
void collect_digests(Session& session, Process& process);

/**
 * Compare the digests of the frozen target with those of an image. All false when the image has none.
 * @param own_channel, keep  as for has_shared_content()
 */
Unchanged compare_digests(Session& session, const Process& image, bool own_channel, SharedMemory keep);

/**
 * Has the image shared memory that a rollback may have to restore? No digest covers its content.
 * @param own_channel  the shared memory between a program and its helper does not count, if there is just one
 * @param keep         with SharedMemory::keep, what other processes map does not count either; that they still do is part
 *                     of the digest of the mappings
 */
bool has_shared_content(const Process& image, bool own_channel, SharedMemory keep);

}  // namespace reprise
