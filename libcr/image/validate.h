// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Semantic checks of an image's state: everything that the restoring code relies
 * on without another check. The writer makes the same checks, so that it never
 * writes an image that cannot be used.
 */
#include <span>
#include <string>

#include "cr.h"
#include "image/state.pb.h"

namespace reprise {

/**
 * Check @p process: counts, indices, addresses, order, ranges of numbers.
 * @param name      name of the image in messages
 * @param blob_size bytes of the blob section
 * @throws Error (permanent) naming the thread, mapping or descriptor
 */
void validate_process(const std::string& name, const Process& process, std::uint64_t blob_size);

/**
 * Check that every run of saved pages lies in one mapping whose pages are restored
 * (CR_VMA_PAGES) or are saved for debuggers (CR_VMA_SPECIAL: the vdso).
 * @throws Error (permanent)
 */
void validate_runs(const std::string& name, const Process& process, std::span<const cr_page_run> runs);

}  // namespace reprise
