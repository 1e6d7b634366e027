// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The number by which a program learns that its memory is an earlier one (cr_generation() of libcr). It lies in a page
 * that is emptied on fork and by every restore, and is written again with a higher number before the program runs.
 */
#include <cstdint>
#include <span>

#include "image/state.pb.h"
#include "session/session.h"

namespace reprise {

/** Note where the program has its generation number, if it has one. Target frozen, with the mappings @p vmas. */
void collect_generation(const Session& session, std::span<const cr_vma> vmas, Process& process);

/**
 * @return a number higher than that of the image and than the one that the target has now, before it is emptied; 0: it
 * has none. Throws Error (refused) when something else lies at that place
 */
std::uint64_t next_generation(const Session& session, std::span<const cr_vma> now, const Process& image);

/** Put it where the image says. The pages are back. */
void restore_generation(const Session& session, const Process& image, std::uint64_t generation);

}  // namespace reprise
