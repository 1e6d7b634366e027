// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file A file without a name, for images that come from or go to something that cannot be sought in. */
#include <string>

#include "base/unique_fd.h"

namespace reprise::image {

/** A new unnamed file in $TMPDIR or /tmp, mode 0600. */
UniqueFd spool_file(const std::string& name);

/** Copy from where @p from stands to its end, to where @p to stands. */
void copy_all(int from, int to, const std::string& name);

}  // namespace reprise::image
