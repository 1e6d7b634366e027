// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Memory that other live processes share: may a restore overwrite it? */
#include <set>
#include <span>

#include "image/state.pb.h"
#include "process/mappings.h"
#include "process/shared.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/session.h"

namespace reprise {

/** Is @p object the memory through which a program that uses libcr and its helper communicate? */
bool is_channel(const SharedObject& object);

/**
 * Refuse to overwrite shared memory and mapped files that other processes also map or have open (memfds), unless
 * options.shared_memory says what to do. Content that equals the image's is not refused, and neither is kept
 * memory, which no restore overwrites. Target frozen, with the
 * mappings @p now, not committed. Throws Error (refused).
 * @param files  files of the mappings to be made
 * @param read   reads content of the image
 * @return indexes of the shared objects whose content must be left as it is
 */
std::set<int> check_sharing(Session& session, std::span<const cr_vma> now, const Process& image, const MappingFiles& files,
                            const RestoreOptions& options, RestoreMode mode, const BlobReader& read, Report& report);

}  // namespace reprise
