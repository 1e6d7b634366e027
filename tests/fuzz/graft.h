// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Changes images consistently, so that mutations get past checksums and offsets. */
#include <string>

namespace reprise::fuzz {

/** Correct the seal's file size and checksum, as far as the sizes in it make sense. */
void fix_seal(std::string& image);

/** @return the serialized state in @p image; "" when there is none */
std::string find_state(const std::string& image);

/** @return @p image with another state in its note and all offsets corrected; "" if @p image is too malformed */
std::string with_state(const std::string& image, const std::string& state);

}  // namespace reprise::fuzz
