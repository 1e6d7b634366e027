// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file An unnamed temporary file, for images that are read from or written to a descriptor that cannot seek. */
#include <string>

#include "base/unique_fd.h"

namespace reprise::image {

/**
 * Create an unnamed file in $TMPDIR or /tmp, mode 0600, open for reading and writing.
 * @param name name of the image in messages
 * @throws Error
 */
UniqueFd spool_file(const std::string& name);

/** Copy @p from, from its current position to its end, to the current position of @p to. @throws Error */
void copy_all(int from, int to, const std::string& name);

}  // namespace reprise::image
