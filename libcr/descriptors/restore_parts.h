// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Steps of restore.cpp that are in source files of their own. */
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
 * Raise our own RLIMIT_NOFILE as far as the restore needs descriptors of ours: for what is made, and for what is held
 * while its numbers are closed. Call it before the commit. Throws Error (refused) if the limit cannot be raised.
 */
void need_own_numbers(const Restorer& restorer, const DescriptorPlan& plan);
/**
 * @return the RLIMIT_NOFILE that the target needs during the restore: for the highest number of the image and for
 * @p spare temporary descriptors, plus some reserve if possible. nullopt if its own limit is enough
 * Throws Error (refused) if the caller may not raise the limit that far.
 */
std::optional<rlimit> wider_limit(const Session& session, const Process& image, std::span<const cr_fd> live,
                                  std::size_t spare);

// install.cpp
/** Is the description live, but at none of its numbers in the image, so that we must hold it while numbers change? */
bool held(const Restorer& restorer, const DescriptorPlan& plan, std::uint32_t index);
/** Install made, held and substituted descriptors in the target. Throws Error. */
void install_descriptors(Session& session, Remote& remote, Restorer& restorer, const DescriptorPlan& plan);

// status.cpp
/** Restore file offset, owner, signal, status flags and close-on-exec flags. Failures are warnings. */
void restore_status(Restorer& restorer, Remote& remote, const DescriptorPlan& plan);

}  // namespace reprise
