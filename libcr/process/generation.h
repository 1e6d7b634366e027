// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The generation number, by which a program detects that its memory was rolled back (cr_generation() of libcr). Fork
 * clears its page (MADV_WIPEONFORK). So does every restore, which then writes a higher number before the program runs.
 */
#include <cstdint>
#include <span>

#include "image/state.pb.h"
#include "session/session.h"

namespace reprise {

/** Save the address and value of the generation number, if there is one. Target frozen, with the mappings @p vmas. */
void collect_generation(const Session& session, std::span<const cr_vma> vmas, Process& process);

/**
 * Call it before the page is cleared.
 * @return a number higher than the image's and the target's current one; 0 if the image has none. Throws Error
 * (refused) if the page holds something else
 */
std::uint64_t next_generation(const Session& session, std::span<const cr_vma> now, const Process& image);

/** @return what tells the module to increase the number (CR_IOC_ROLLBACK); without an address if the image has none */
cr_counter generation_counter(const Process& image);

/** Write @p generation to the address in the image. Call it after the pages are restored. */
void restore_generation(const Session& session, const Process& image, std::uint64_t generation);

}  // namespace reprise
