// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file An unnamed temporary file, for images that are read from or written to a descriptor that cannot seek. */
#include <functional>
#include <string>

#include "base/unique_fd.h"

namespace reprise::image {

/**
 * Create an unnamed file in $TMPDIR or /tmp, mode 0600, open for reading and writing.
 * @param name name of the image in messages
 * @throws Error
 */
UniqueFd spool_file(const std::string& name);

/** Write all of @p data at the current position of @p fd. @throws Error */
void write_all(int fd, const std::string& name, const char* data, std::size_t len);

/** Give @p use what @p from has, from its current position to its end. @throws Error */
void read_all(int from, const std::string& name, const std::function<void(const char* data, std::size_t len)>& use);

}  // namespace reprise::image
