// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Reading and writing what files and shared memory hold, with their holes. */
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "image/state.pb.h"
#include "restore/on_behalf.h"

namespace reprise {

/** Gives content by its offset in the blob section, verified. */
using BlobReader = std::function<void(std::uint64_t offset, void* buf, std::size_t len)>;

/**
 * Another description of @p file, open in the target with @p flags, so that reading moves no position; @p file itself
 * where the process may not open it any more. Empty when it cannot be read.
 */
UniqueFd to_be_read(const OnBehalf& behalf, UniqueFd file, std::uint32_t flags);

/** Bytes [start, end) of a file. */
struct FileRange {
  std::uint64_t start, end;
};

/** Where there is data in [0, size). The position of @p fd stays as it is. */
std::vector<FileRange> data_ranges(int fd, std::uint64_t size);
/** Sort, and join what touches. */
void merge(std::vector<FileRange>& ranges);
/** What of @p range lies within @p within, which is merged. */
std::vector<FileRange> intersect(FileRange range, const std::vector<FileRange>& within);
/** Which parts of [0, size) no extent of @p object covers: they were never written. */
std::vector<FileRange> holes_of(const SharedObject& object);

/** Throws Error naming @p object; temporary where there is no room. */
[[noreturn]] void fail_content(const SharedObject& object, const char* what, int err);
/** Zeros where it has ended. Throws Error. */
void read_content(const SharedObject& object, int fd, std::uint64_t offset, char* buf, std::uint64_t len);
/** Throws Error. */
void write_content(const SharedObject& object, int fd, std::uint64_t offset, const char* buf, std::uint64_t len);
/** Only pages that differ: sealed and untouched memory stays as it is, and so do holes and times of files. */
void write_different(const SharedObject& object, int fd, std::uint64_t offset, const char* buf, char* scratch,
                     std::uint64_t len);
/** Make holes within @p within where the object has them. Throws Error. */
void punch_since(const SharedObject& object, int fd, const std::vector<FileRange>& within);

}  // namespace reprise
