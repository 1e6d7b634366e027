// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Build the parts of an image other than pages and shared content. */
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cr.h"
#include "image/format.h"
#include "image/state.pb.h"

namespace reprise::image {

/**
 * Split @p ranges at the boundaries of mappings.
 * @return the runs; their file offsets are not set yet
 * @throws Error (permanent) when a range is unaligned, unsorted or outside of all mappings
 */
std::vector<cr_page_run> split_at_mappings(const std::string& name, const Process& process,
                                           std::span<const cr_range> ranges);

/**
 * Build the ELF header, the program headers and the first note segment, padded to a page.
 * Sets the file offsets of @p runs.
 * @param format of the image
 * @throws Error (refused) when there are too many segments or the notes are too large
 */
std::string build_headers(std::uint32_t format, const Process& process, const std::string& notes,
                          std::vector<cr_page_run>& runs, std::uint64_t blob_size);

}  // namespace reprise::image
