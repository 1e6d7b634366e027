// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Path and identity of a file in an image. */
#include <string>

#include <sys/stat.h>

#include "image/state.pb.h"
#include "restore/target_paths.h"

namespace reprise {

/**
 * Fill in path, identity and size of a file.
 * @param link    target of its link in /proc
 * @param status  its stat
 * @param paths   paths of the process whose link it is
 */
void fill_file(File& file, const std::string& link, const struct ::stat& status, const TargetPaths& paths);

/**
 * Remove the " (deleted)" that the kernel appends to links of deleted files, unless it is part of the file's name.
 * @param link   target of the link in /proc, changed in place
 * @param inode  inode of the file
 * @return whether the file was deleted
 */
bool cut_deleted(std::string& link, std::uint64_t inode, const TargetPaths& paths);

}  // namespace reprise
