// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Writing to files, their atomic replacement, and directories that only this user can enter. */
#include <cstddef>
#include <string>
#include <string_view>

namespace reprise::job {

/** Throw std::system_error of errno: "WHAT: strerror". */
[[noreturn]] void throw_errno(const std::string& what);

/** Write @p content to a descriptor. @return the number of bytes written: all, unless an error (in errno) occurred */
std::size_t write_all(int fd, std::string_view content);

/**
 * Replace @p path by @p content: write a temporary file beside it, sync it, rename it, and sync the directory. After a
 * crash either the old or the new content is there. The directory may be one where others can make links. Throws
 * std::system_error, which names the path.
 */
void write_atomically(const std::string& path, std::string_view content, unsigned mode = 0600);

/** @return the whole content of the file. Throws std::system_error, which names the path. */
std::string read_file(const std::string& path);

/** Write the directory entries of @p directory to the disk. Throws std::system_error. */
void sync_directory(const std::string& directory);

/**
 * Create @p path, and its missing parents, as a directory that only this user may enter. If @p path exists, it must be a
 * directory that belongs to this user and that no other user may write, and not a symbolic link. Throws std::system_error
 * or std::runtime_error; the text says what to do.
 */
void make_private_directory(const std::string& path);

}  // namespace reprise::job
