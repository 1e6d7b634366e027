// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Which file an image means. */
#include <string>

#include <sys/stat.h>

#include "image/state.pb.h"
#include "restore/target_paths.h"

namespace reprise {

/**
 * Identity and size of a file by its link in /proc and its stat.
 * @param paths  of the process whose link it is
 */
void fill_file(File& file, const std::string& link, const struct ::stat& status, const TargetPaths& paths);

/**
 * The path in @p link, which the kernel shows of a file with @p inode: with or without " (deleted)", which may be part
 * of its name. @return whether it was deleted
 */
bool cut_deleted(std::string& link, std::uint64_t inode, const TargetPaths& paths);

}  // namespace reprise
