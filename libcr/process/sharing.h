// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Memory that other live processes share: whether it may be rewritten under them. */
#include <set>
#include <span>

#include "image/state.pb.h"
#include "process/mappings.h"
#include "process/shared.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/session.h"

namespace reprise {

/**
 * Refuse to rewrite shared memory and mapped files that other processes map as well, or have open (memfds), unless
 * the options say what shall become of them. Content that is as in the image is no reason. Target frozen, with the
 * mappings @p now, not committed.
 * @param files  of mappings that will be made
 * @param read   content of the image
 * @return indexes of the shared objects whose content must be left as it is
 */
std::set<int> check_sharing(Session& session, std::span<const cr_vma> now, const Process& image, const MappingFiles& files,
                            const RestoreOptions& options, RestoreMode mode, const BlobReader& read, Report& report);

}  // namespace reprise
