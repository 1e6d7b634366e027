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
 * @throws Error (refused) when there are too many segments or the notes are too large
 */
std::string build_headers(const Process& process, const std::string& notes, std::vector<cr_page_run>& runs,
                          std::uint64_t blob_size);

/** @return bytes of the second note segment, for @p pages saved pages and @p blocks blocks of the blob section */
std::uint64_t tail_size(std::uint64_t pages, std::uint64_t blocks);

/** Build the padding after the blob section and the second note segment: checksums and seal. Sets the seal's hash. */
std::string build_tail(const std::string& head, image::Seal seal, const std::vector<std::uint64_t>& hashes,
                       const std::vector<std::uint64_t>& blob_hashes);

/** @return the seal's hash: the XXH64 of @p head followed by @p tail without its last eight bytes */
std::uint64_t seal_hash(std::string_view head, std::string_view tail);

}  // namespace reprise::image
