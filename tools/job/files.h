// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Files that are there as a whole or not at all, and directories that are ours alone. */
#include <string>
#include <string_view>

namespace reprise::job {

/**
 * Replace @p path by @p content: written beside it, synced, renamed, and the directory synced, so that
 * after a crash either the old or the new content is there. Throws std::system_error naming the path.
 */
void write_atomically(const std::string& path, std::string_view content, unsigned mode = 0600);

/** All of a file. Throws std::system_error naming the path. */
std::string read_file(const std::string& path);

/** Have the names in @p directory on the disk. Throws std::system_error. */
void sync_directory(const std::string& directory);

/**
 * Make @p path, and what is missing above it, as a directory that only this user may enter. Where it is
 * there already it must be a directory of this user's, that nobody else may write, and no symbolic link.
 * Throws std::system_error or std::runtime_error with what to do.
 */
void make_private_directory(const std::string& path);

}  // namespace reprise::job
