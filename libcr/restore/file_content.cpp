// SPDX-License-Identifier: LGPL-2.1-or-later
#include "restore/file_content.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

namespace reprise {
namespace {

constexpr std::uint64_t kPage = 4096;

}  // namespace

UniqueFd to_be_read(const OnBehalf& behalf, UniqueFd file, std::uint32_t flags) {
  if (UniqueFd own = behalf.reopen(file.get(), O_RDONLY)) return own;
  return (flags & O_PATH) || (flags & O_ACCMODE) == O_WRONLY ? UniqueFd() : std::move(file);
}

std::vector<FileRange> data_ranges(int fd, std::uint64_t size) {
  std::vector<FileRange> ranges;
  const off_t position = ::lseek(fd, 0, SEEK_CUR);  // restored below: the target may share this description
  for (std::uint64_t at = 0; at < size;) {
    const off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0) break;
    const off_t hole = ::lseek(fd, data, SEEK_HOLE);
    const std::uint64_t end = hole < 0 ? size : std::min<std::uint64_t>(static_cast<std::uint64_t>(hole), size);
    if (static_cast<std::uint64_t>(data) >= end) break;
    ranges.push_back({static_cast<std::uint64_t>(data), end});
    at = end;
  }
  if (position >= 0) ::lseek(fd, position, SEEK_SET);
  return ranges;
}

void merge(std::vector<FileRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const FileRange& a, const FileRange& b) { return a.start < b.start; });
  std::size_t n = 0;
  for (const FileRange& range : ranges) {
    if (range.start >= range.end) continue;
    if (n && range.start <= ranges[n - 1].end)
      ranges[n - 1].end = std::max(ranges[n - 1].end, range.end);
    else
      ranges[n++] = range;
  }
  ranges.resize(n);
}

std::vector<FileRange> intersect(FileRange range, const std::vector<FileRange>& within) {
  std::vector<FileRange> parts;
  auto at = std::lower_bound(within.begin(), within.end(), range.start,
                             [](const FileRange& one, std::uint64_t start) { return one.end <= start; });
  for (; at != within.end() && at->start < range.end; ++at)
    parts.push_back({std::max(at->start, range.start), std::min(at->end, range.end)});
  return parts;
}

std::vector<FileRange> holes_of(const SharedObject& object) {
  std::uint64_t at = 0;
  std::vector<FileRange> holes;
  for (const auto& extent : object.extents()) {
    if (extent.offset() > at) holes.push_back({at, extent.offset()});
    at = extent.offset() + extent.length();
  }
  if (at < object.size()) holes.push_back({at, object.size()});
  return holes;
}

void fail_content(const SharedObject& object, const char* what, int err) {
  throw Error(err == ENOSPC ? Failure::temporary : Failure::permanent, err,
              "shared memory or file " + object.file().path() + ": " + what + ": " + error_text(err));
}

void read_content(const SharedObject& object, int fd, std::uint64_t offset, char* buf, std::uint64_t len) {
  while (len > 0) {
    const ssize_t got = ::pread(fd, buf, len, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_content(object, "reading", errno);
    if (got == 0) {  // the file was truncated meanwhile
      std::memset(buf, 0, len);
      return;
    }
    buf += got;
    offset += static_cast<std::uint64_t>(got);
    len -= static_cast<std::uint64_t>(got);
  }
}

void write_content(const SharedObject& object, int fd, std::uint64_t offset, const char* buf, std::uint64_t len) {
  while (len > 0) {
    const ssize_t put = ::pwrite(fd, buf, len, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_content(object, "writing", errno);
    buf += put;
    offset += static_cast<std::uint64_t>(put);
    len -= static_cast<std::uint64_t>(put);
  }
}

void write_different(const SharedObject& object, int fd, std::uint64_t offset, const char* buf, char* scratch,
                     std::uint64_t len) {
  read_content(object, fd, offset, scratch, len);
  for (std::uint64_t at = 0; at < len;) {
    const std::uint64_t page = std::min(kPage, len - at);
    if (std::memcmp(buf + at, scratch + at, page) == 0) {
      at += page;
      continue;
    }
    std::uint64_t end = at + page;
    while (end < len && std::memcmp(buf + end, scratch + end, std::min(kPage, len - end)) != 0)
      end += std::min(kPage, len - end);
    write_content(object, fd, offset + at, buf + at, end - at);
    at = end;
  }
}

void punch_since(const SharedObject& object, int fd, const std::vector<FileRange>& within) {
  const std::vector<FileRange> holes = holes_of(object);
  if (holes.empty()) return;
  for (const FileRange& data : data_ranges(fd, object.size()))
    for (const FileRange& hole : intersect(data, holes))
      for (const FileRange& part : intersect(hole, within))
        if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(part.start),
                        static_cast<off_t>(part.end - part.start)) != 0)
          fail_content(object, "emptying", errno);
}

}  // namespace reprise
