// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The steps of restore.cpp that have a file of their own. */
#include <sys/resource.h>

#include <optional>
#include <span>

#include "descriptors/kinds.h"
#include "descriptors/plan.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

// open_file_limits.cpp
/**
 * What is made, and what is held while its numbers are closed, are open files of ours, too. Found out before the
 * commit: past it there is no way back.
 */
void need_own_numbers(const Restorer& restorer, const DescriptorPlan& plan);
/**
 * The limit of open files that the target needs meanwhile: for the highest number of the image, and for @p spare more
 * descriptors than it has. None when its own will do. Some more are asked for, as others may be needed, too.
 * Throws Error (refused) when the caller may not raise it so far.
 */
std::optional<rlimit> wider_limit(const Session& session, const Process& image, std::span<const cr_fd> live,
                                  std::size_t spare);

// install.cpp
/** Does what the target has under another number as well have to be taken over to put it in its places? */
bool held(const Restorer& restorer, const DescriptorPlan& plan, std::uint32_t index);
/** Put what is made, kept elsewhere or substituted in its places in the target. Throws Error. */
void install_descriptors(Session& session, Remote& remote, Restorer& restorer, const DescriptorPlan& plan);

// status.cpp
/** Position, owner, signal, status flags and close-on-exec flags. What cannot be set is a warning. */
void restore_status(Restorer& restorer, Remote& remote, const DescriptorPlan& plan);

}  // namespace reprise
