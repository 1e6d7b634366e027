// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The meaning of an image's state: everything the restoring side relies upon
 * without looking again. The writer checks it, too, so that no image is
 * written that could not be used.
 */
#include <span>
#include <string>

#include "cr.h"
#include "image/state.pb.h"

namespace reprise {

/**
 * Check @p process: counts, indices, addresses, order, ranges of numbers.
 * @param name      how messages call the image
 * @param blob_size bytes of the blob section
 * @throws Error permanent, naming the thread, mapping or descriptor
 */
void validate_process(const std::string& name, const Process& process, std::uint64_t blob_size);

/**
 * Check that every run of saved pages lies in one mapping whose pages are put
 * back (CR_VMA_PAGES) or are there for debuggers (CR_VMA_SPECIAL: the vdso).
 */
void validate_runs(const std::string& name, const Process& process, std::span<const cr_page_run> runs);

}  // namespace reprise
