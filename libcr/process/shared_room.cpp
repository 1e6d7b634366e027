// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/text.h"
#include "process/mappings.h"
#include "process/shared.h"
#include "process/shared_open.h"
#include "restore/nameless_files.h"

namespace reprise {
namespace {

constexpr std::uint64_t kPage = 4096;

/** @return the holes in [0, size) */
std::vector<FileRange> missing_ranges(int fd, std::uint64_t size) {
  std::vector<FileRange> missing;
  std::uint64_t at = 0;
  for (const FileRange& data : data_ranges(fd, size)) {
    if (data.start > at) missing.push_back({at, data.start});
    at = data.end;
  }
  if (at < size) missing.push_back({at, size});
  return missing;
}

/** Add the pages of @p buf, which belongs at @p offset of a file, that are not all zeros to @p out. */
void add_nonzero(const char* buf, std::uint64_t len, std::uint64_t offset, std::vector<FileRange>& out) {
  static const char zeros[kPage] = {};
  for (std::uint64_t at = 0; at < len; at += kPage) {
    const std::uint64_t size = std::min(kPage, len - at);
    if (std::memcmp(buf + at, zeros, size) == 0) continue;
    if (!out.empty() && out.back().end == offset + at)
      out.back().end += size;
    else
      out.push_back({offset + at, offset + at + size});
  }
}

/** @return the existing file of object @p index, open for writing; none if the restore creates it or writes none */
UniqueFd open_for_room(Session& session, const OnBehalf& behalf, const Process& image, const RestoreOptions& options,
                       RestoreMode mode, int index, const MappingFiles& files, NamelessFiles& nameless) {
  const auto number = static_cast<std::uint32_t>(index) + 1;
  const SharedObject& object = image.shared_objects(index);
  int there = files.find(number);
  UniqueFd mapped;
  if (there < 0 && (mode == RestoreMode::restart || files.is_remade(number))) return {};
  if (there < 0 && can_be_made(object)) there = nameless.file(number);
  if (there < 0) {
    mapped = open_object(session, behalf, image, index, options.relocated(object.file().path()));
    there = mapped.get();
  }
  struct stat st {};
  if (there < 0 || nameless.made().count(number) || ::fstat(there, &st) != 0 || !S_ISREG(st.st_mode)) return {};
  return behalf.reopen(there, O_RDWR);
}

}  // namespace

SharedRoom::~SharedRoom() {
  for (const Taken& one : taken_)
    for (const FileRange& range : one.ranges)
      ::fallocate(one.file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(range.start),
                  static_cast<off_t>(range.end - range.start));
}

SharedRoom SharedRoom::take(Session& session, const Process& image, const RestoreOptions& options, RestoreMode mode,
                            const BlobReader& read, const MappingFiles& files, NamelessFiles& nameless,
                            const std::set<int>& kept) {
  constexpr std::uint64_t chunk = 1 << 20;
  SharedRoom room;
  const OnBehalf behalf = OnBehalf::of(session.pid(), image, options, mode);
  std::unique_ptr<char[]> buffer;
  for (int i = 0; i < image.shared_objects_size(); ++i) {
    const SharedObject& object = image.shared_objects(i);
    const std::vector<FileRange> written = written_ranges(image, i);
    if (kept.contains(i) || object.extents_size() == 0 || (object.kind() == SharedObject::FILE && written.empty())) continue;
    UniqueFd fd = open_for_room(session, behalf, image, options, mode, i, files, nameless);
    if (!fd) continue;
    std::vector<FileRange> needed;
    const std::vector<FileRange> missing = missing_ranges(fd.get(), object.size());
    for (const auto& extent : object.extents()) {
      for (const FileRange& part : intersect({extent.offset(), extent.offset() + extent.length()}, missing)) {
        for (std::uint64_t at = part.start; at < part.end; at += chunk) {
          if (!buffer) buffer = std::make_unique<char[]>(chunk);
          const std::uint64_t len = std::min(chunk, part.end - at);
          read(extent.blob_offset() + (at - extent.offset()), buffer.get(), len);
          add_nonzero(buffer.get(), len, at, needed);
        }
      }
    }
    if (needed.empty()) continue;
    room.taken_.push_back({std::move(fd), {}});
    Taken& taken = room.taken_.back();
    for (const FileRange& range : needed) {
      const OnBehalf::Rights rights(behalf);  // so that the target's quota applies
      if (::fallocate(taken.file.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(range.start),
                      static_cast<off_t>(range.end - range.start)) == 0) {
        taken.ranges.push_back(range);
      } else if (errno == ENOSPC || errno == EDQUOT || errno == ENOMEM) {
        fail_content(object, "reserving space for content that was removed since the checkpoint", errno);
      }
      // Other errors: the file system has no fallocate(). A lack of space then shows only when the content is written.
    }
  }
  return room;
}

}  // namespace reprise
