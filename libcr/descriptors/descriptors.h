// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The descriptors of a process: what is saved of them, what of it can be brought
 * back, and bringing it back. The order of calls for a restore is
 * check_descriptors, [freeze], check_descriptors_live, [commit],
 * restore_descriptors.
 */
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "base/unique_fd.h"
#include "image/state.pb.h"
#include "restore/on_behalf.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

class NamelessFiles;

/** Files, sockets … that were already made before the commit: whatever can fail has been tried then. */
struct PreparedDescriptors {
  std::map<std::uint32_t, UniqueFd> made;  ///< by index into Process.descriptions
  std::vector<std::string> warnings;
  std::optional<rlimit> limit;  ///< of open files, which the target needs meanwhile
};

/**
 * Save descriptors and descriptions, and the shared objects of memfds and deleted files that are not mapped (call it
 * after the mappings were collected). Target frozen. Throws Error (refused) that names each one which cannot be saved.
 * @param save_deleted  the content of deleted files is wanted
 */
void collect_descriptors(Session& session, Process& process, bool save_deleted);

/** Refusals that the image and the options alone decide. Touches nothing. */
void check_descriptors(const Process& image, const RestoreOptions& options, RestoreMode mode);

/**
 * Refusals that depend on the target and on the system as it is now. Target frozen, not committed; changes
 * nothing in the target. Give the result to make_room() and restore_descriptors().
 * @param spare  descriptors that other steps give the target for a moment
 * @param behalf    opens files
 * @param nameless  makes files that have no name
 */
PreparedDescriptors check_descriptors_live(Session& session, const Process& image, const RestoreOptions& options,
                                           RestoreMode mode, std::size_t spare, const OnBehalf& behalf,
                                           NamelessFiles& nameless);

/** Have the target take as many descriptors as the steps behind the commit give it: the first of them. */
void make_room(const Session& session, const PreparedDescriptors& prepared);

/**
 * Bytes waiting in those of the image's pipes to other processes that the target has still open: a rollback
 * leaves them there. Target frozen.
 */
std::map<int, std::uint64_t> queued_in_pipes(Session& session, const Process& image);

/** Bring the target's descriptors back. Target frozen and committed, mappings and pages in place. */
void restore_descriptors(Session& session, Remote& remote, const Process& image, const RestoreOptions& options,
                         RestoreMode mode, const OnBehalf& behalf, Report& report, PreparedDescriptors prepared);

}  // namespace reprise
