// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Which file an image means. */
#include <string>

#include <sys/stat.h>

#include "image/state.pb.h"

namespace reprise {

/** Identity and size of a file by its link in /proc and its stat. */
void fill_file(File& file, const std::string& link, const struct ::stat& status);

}  // namespace reprise
