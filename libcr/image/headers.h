// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The parts of an image that are neither pages nor shared content, as bytes. */
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cr.h"
#include "image/format.h"
#include "image/state.pb.h"

namespace reprise::image {

/**
 * @p ranges cut at the boundaries of mappings, offsets not yet set.
 * @throws Error when a range is unaligned, unsorted or outside of all mappings
 */
std::vector<cr_page_run> split_at_mappings(const std::string& name, const Process& process,
                                           std::span<const cr_range> ranges);

/**
 * ELF header, program headers and the first note segment, padded to a page.
 * Sets the file offsets of @p runs.
 */
std::string build_headers(const Process& process, const std::string& notes, std::vector<cr_page_run>& runs,
                          std::uint64_t blob_size);

/** Bytes of the second note segment. */
std::uint64_t tail_size(std::uint64_t pages, std::uint64_t blocks);

/** Padding after the blob section and the second note segment: checksums and seal. */
std::string build_tail(const std::string& head, image::Seal seal, const std::vector<std::uint64_t>& hashes,
                       const std::vector<std::uint64_t>& blob_hashes);

/** The seal's own checksum: of @p head and of @p tail without its last eight bytes. */
std::uint64_t seal_hash(std::string_view head, std::string_view tail);

}  // namespace reprise::image
