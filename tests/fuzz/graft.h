// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Surgery on images, so that mutations get past checksums and offsets. */
#include <string>

namespace reprise::fuzz {

/** Make the seal's file size and checksum right, as far as the sizes in it make sense. */
void fix_seal(std::string& image);

/** The serialized state in @p image, "" when there is none to be found. */
std::string find_state(const std::string& image);

/** @p image with another state in its note and every offset moved accordingly; "" when it is too far from an image. */
std::string with_state(const std::string& image, const std::string& state);

}  // namespace reprise::fuzz
