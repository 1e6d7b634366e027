// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Saving, checking and restoring the descriptors of a process. The order of calls for a restore is check_descriptors(),
 * [freeze], check_descriptors_live(), [commit], make_room(), restore_descriptors().
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

/** Files, sockets and so on that were made before the commit, while a failure can still refuse the request. */
struct PreparedDescriptors {
  std::map<std::uint32_t, UniqueFd> made;  ///< by index into Process.descriptions
  std::vector<std::string> warnings;
  std::optional<rlimit> limit;  ///< RLIMIT_NOFILE that the target needs during the restore
};

/**
 * Save descriptors and descriptions, and the shared objects of memfds and deleted files that are not mapped (call it
 * after the mappings were collected). Target frozen. Throws Error (refused) naming each one that cannot be saved.
 * @param save_deleted  save the content of deleted files
 */
void collect_descriptors(Session& session, Process& process, bool save_deleted);

/** Check what the image and the options alone decide. Changes nothing. Throws Error (refused, usage). */
void check_descriptors(const Process& image, const RestoreOptions& options, RestoreMode mode);

/**
 * Check that several processes can have the descriptors of the image at once. Adds to @p report which files they share.
 * Throws Error (refused) naming each one that only one process can have.
 */
void check_copies(const Process& image, const RestoreOptions& options, Report& report);

/**
 * Check what depends on the target and the system. Target frozen, not committed; changes nothing in the target.
 * Throws Error (refused).
 * @param spare     number of descriptors that other steps install in the target temporarily
 * @param behalf    opens files
 * @param nameless  recreates deleted files and memfds
 * @return pass it to make_room() and restore_descriptors()
 */
PreparedDescriptors check_descriptors_live(Session& session, const Process& image, const RestoreOptions& options,
                                           RestoreMode mode, std::size_t spare, const OnBehalf& behalf,
                                           NamelessFiles& nameless);

/** Raise the target's RLIMIT_NOFILE as far as needed. The first step after the commit. */
void make_room(const Session& session, const PreparedDescriptors& prepared);

/**
 * @return for each descriptor of a pipe to another process that the target still has open: the bytes in the pipe. A
 * rollback leaves them there. Target frozen.
 */
std::map<int, std::uint64_t> queued_in_pipes(Session& session, const Process& image, const std::set<int>& keep_pipes);

/**
 * Do all open files of the image allow restore_unchanged_descriptors()?
 * @param same_content  the module says that their content has not changed (CR_AREA_CONTENT)
 */
bool may_be_unchanged(const Process& image, bool same_content);

/** Does the module compare all that is in the image's open files (CR_AREA_DESCRIPTORS, CR_AREA_CONTENT)? */
bool module_compares_all(const Process& image);

/**
 * Instead of check_descriptors_live() and restore_descriptors(), if the module says that no descriptor has changed: restore
 * what it cannot see. Target frozen and committed.
 * @param same_content  as for may_be_unchanged()
 */
void restore_unchanged_descriptors(Session& session, const Process& image, const RestoreOptions& options,
                                   const OnBehalf& behalf, bool same_content, Report& report);

/** Restore the target's descriptors. Target frozen and committed, mappings and pages in place. */
void restore_descriptors(Session& session, Remote& remote, const Process& image, const RestoreOptions& options,
                         RestoreMode mode, const OnBehalf& behalf, Report& report, PreparedDescriptors prepared);

}  // namespace reprise
