// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Read and write the content of files and shared memory, with their holes. */
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "image/state.pb.h"
#include "restore/on_behalf.h"

namespace reprise {

/** Reads @p len bytes at @p offset of the blob section, verified. Throws Error. */
using BlobReader = std::function<void(std::uint64_t offset, void* buf, std::size_t len)>;

/**
 * Open a description of @p file for reading, because reading through the target's own would move its position.
 * @param file   our descriptor of a file that the target has open
 * @param flags  O_* flags with which the target has it open
 * @return the new description; @p file itself if the process may not open the file any more; empty if that one was not
 *         opened for reading
 */
UniqueFd to_be_read(const OnBehalf& behalf, UniqueFd file, std::uint32_t flags);

/** Bytes [start, end) of a file. */
struct FileRange {
  std::uint64_t start, end;
};

/** @return the ranges of data in [0, size), without holes (SEEK_DATA). The position of @p fd does not change. */
std::vector<FileRange> data_ranges(int fd, std::uint64_t size);
/** Sort the ranges, join those that overlap or touch, and remove empty ones. */
void merge(std::vector<FileRange>& ranges);
/** @return the parts of @p range that lie in @p within, which must be merged */
std::vector<FileRange> intersect(FileRange range, const std::vector<FileRange>& within);
/** @return the parts of [0, size) that no extent of @p object covers: the holes at the checkpoint */
std::vector<FileRange> holes_of(const SharedObject& object);

/** Throw an Error that names @p object: temporary for ENOSPC, else permanent. */
[[noreturn]] void fail_content(const SharedObject& object, const char* what, int err);
/** Read exactly @p len bytes; zeros beyond the end of the file. Throws Error. */
void read_content(const SharedObject& object, int fd, std::uint64_t offset, char* buf, std::uint64_t len);
/** Write exactly @p len bytes. Throws Error. */
void write_content(const SharedObject& object, int fd, std::uint64_t offset, const char* buf, std::uint64_t len);
/**
 * Write only the pages that differ, so that sealed memory, holes and times stay unchanged if nothing differs.
 * @param scratch  buffer of @p len bytes
 * Throws Error.
 */
void write_different(const SharedObject& object, int fd, std::uint64_t offset, const char* buf, char* scratch,
                     std::uint64_t len);
/** Punch the holes of @p object into the data of @p fd, inside the ranges @p within. Throws Error. */
void punch_since(const SharedObject& object, int fd, const std::vector<FileRange>& within);

}  // namespace reprise
