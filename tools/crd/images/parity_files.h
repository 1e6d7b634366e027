// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Parity of a wave on this node's disk: wave-N/parity.xor, and its description wave-N/parity.set (ParitySet). */
#include <cstdint>
#include <memory>
#include <string>

#include "crd/images/offered.h"
#include "crd/images/sources.h"

namespace reprise::crd {

/** @return the description there. Throws std::runtime_error: it is missing or damaged */
ParitySet read_parity_set(const std::string& directory, std::uint32_t wave);
/** The parity there, each block of which is verified when it is read. Throws as above. */
std::unique_ptr<Offered> open_parity(const std::string& directory, std::uint32_t wave);

/**
 * Keep the parity that is node @p node's part in the set that @p sources are. What is there already is left alone.
 * @param directory LOCAL/ID; the wave's directory is there
 * Throws Unreachable; std::runtime_error: a member has not what it should have; std::system_error
 */
void keep_parity(Sources& sources, std::uint32_t node, const std::string& directory, const CopyLimits& limits);
/** @return bytes that keep_parity() will write */
std::uint64_t parity_bytes(const Sources::List& set);

/**
 * Make the image of a rank of the set's lost node to @p to, beside it its manifest. A complete one is left alone. Throws as
 * keep_parity(), with a text that names the rank.
 */
void rebuild_image(Sources& sources, std::uint32_t rank, const std::string& to, const CopyLimits& limits);

}  // namespace reprise::crd
