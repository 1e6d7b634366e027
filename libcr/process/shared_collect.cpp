// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Reading the content of shared objects for an image.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/text.h"
#include "process/mapping_plan.h"
#include "process/shared.h"
#include "process/shared_open.h"
#include "restore/nameless_files.h"

namespace reprise {
namespace {

constexpr std::uint64_t kPage = 4096;
// Up to this size the whole mapped part of a writable file is saved, beyond it only the touched pages.
constexpr std::uint64_t kWholeFile = 64ULL << 20;

/** @return a descriptor of the target for object @p index, made readable; none if there is none */
UniqueFd open_to_read(Session& session, const OnBehalf& behalf, const Process& process, int index) {
  const auto number = static_cast<std::uint32_t>(index) + 1;
  for (const Descriptor& descriptor : process.descriptors()) {
    const Description& description = process.descriptions(static_cast<int>(descriptor.description()));
    if (description.shared_object() != number) continue;
    if (UniqueFd file = to_be_read(behalf, session.get_fd(descriptor.fd()), description.flags())) return file;
  }
  return {};
}

/** Throw Error (refused) above the limit: deleted files are copied while the process is frozen, and need memory. */
void check_limit(const Process& process, int index, std::uint64_t bytes, std::uint64_t limit) {
  if (bytes <= limit) return;
  std::string who = "file " + process.shared_objects(index).file().path();
  const auto number = static_cast<std::uint32_t>(index) + 1;
  for (const Descriptor& descriptor : process.descriptors())
    if (process.descriptions(static_cast<int>(descriptor.description())).shared_object() == number) {
      who = "descriptor " + std::to_string(descriptor.fd()) + " (" + who + ")";
      break;
    }
  throw Error(Failure::refused, EFBIG,
              who + ": the deleted files that are open hold " + std::to_string(bytes) + " bytes, above the limit of " +
                  std::to_string(limit) + ": raise it with --deleted-limit, or use --deleted-limit 0 to save none (the "
                  "image then serves only cr_pause)");
}

/** Add the pages of @p mapping that the process has touched, as ranges of the file. */
void add_touched(pid_t pid, const Mapping& mapping, std::vector<FileRange>& out) {
  constexpr std::uint64_t present = 3ULL << 62;  // pagemap bits: present or swapped
  const UniqueFd pagemap(::open(("/proc/" + std::to_string(pid) + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  if (!pagemap) throw Error(Failure::permanent, errno, mapping_name(mapping) + ": cannot read its pagemap");
  std::vector<std::uint64_t> words(16384);
  for (std::uint64_t at = mapping.start(); at < mapping.end();) {
    const std::size_t want = std::min<std::uint64_t>(words.size(), (mapping.end() - at) / kPage);
    const ssize_t got = ::pread(pagemap.get(), words.data(), want * 8, static_cast<off_t>(at / kPage * 8));
    if (got < 8) break;
    const std::size_t pages = static_cast<std::size_t>(got) / 8;
    for (std::size_t i = 0; i < pages; ++i) {
      if (!(words[i] & present)) continue;
      const std::uint64_t offset = mapping.offset() + (at - mapping.start()) + i * kPage;
      if (!out.empty() && out.back().end == offset)
        out.back().end += kPage;
      else
        out.push_back({offset, offset + kPage});
    }
    at += pages * kPage;
  }
}

/** @return the parts of a file to save: what is mapped shared and writable, or anything mapped of a deleted file */
std::vector<FileRange> file_ranges(Session& session, const Process& process, int index, std::uint64_t size) {
  std::vector<FileRange> ranges;
  std::uint64_t total = 0;
  const bool deleted = process.shared_objects(index).file().deleted();
  const auto is_shown = [&](const Mapping& mapping) {
    return mapping.shared_object() == static_cast<std::uint32_t>(index) + 1 && (deleted || is_written(mapping.flags()));
  };
  for (const Mapping& mapping : process.mappings())
    if (is_shown(mapping)) ranges.push_back({mapping.offset(), mapping.offset() + (mapping.end() - mapping.start())});
  const auto clip = [&] {
    for (FileRange& range : ranges) range.end = std::min(range.end, size);
    merge(ranges);
  };
  clip();
  for (const FileRange& range : ranges) total += range.end - range.start;
  if (deleted || total <= kWholeFile) return ranges;
  ranges.clear();
  for (const Mapping& mapping : process.mappings())
    if (is_shown(mapping)) add_touched(session.pid(), mapping, ranges);
  clip();
  return ranges;
}

/** @return a descriptor for the kept memory @p object, which outlives the target; @p fd is one of the target's */
KeptFile to_keep(const OnBehalf& behalf, const SharedObject& object, int fd) {
  KeptFile file{std::string(kept_name(object.file().path())), behalf.reopen(fd, O_RDWR)};
  if (!file.memory) file.memory.reset(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!file.memory) throw Error(Failure::temporary, errno, kept_text(object) + " cannot be handed over");
  return file;
}

constexpr std::uint64_t kChunk = 16 << 20;

}  // namespace

SharedContents::~SharedContents() {
  if (data_) ::munmap(data_, size_);
}

SharedContents::SharedContents(SharedContents&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

SharedContents& SharedContents::operator=(SharedContents&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void SharedContents::make_room(std::uint64_t bytes) {
  if (!bytes) return;
  void* room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    throw Error(Failure::temporary, errno, "no memory for " + std::to_string(bytes) + " bytes of shared memory");
  data_ = static_cast<char*>(room);
  size_ = bytes;
}

SharedContents SharedContents::copy(std::uint64_t bytes, const BlobReader& read) {
  SharedContents made;
  made.make_room(bytes);
  for (std::uint64_t at = 0; at < bytes; at += kChunk) read(at, made.data_ + at, std::min(kChunk, bytes - at));
  return made;
}

void SharedContents::collect(Session& session, Process& process, std::uint64_t deleted_limit, std::vector<KeptFile>* kept) {
  const OnBehalf behalf = OnBehalf::of_process(session.pid());
  std::vector<UniqueFd> files;
  std::uint64_t deleted = 0;
  std::uint64_t total = 0, end = 0;  // extents begin at page boundaries of the blob; the last may end inside a page
  for (int i = 0; i < process.shared_objects_size(); ++i) {
    SharedObject& object = *process.mutable_shared_objects(i);
    UniqueFd fd = can_be_made(object) ? open_to_read(session, behalf, process, i) : UniqueFd();
    if (!fd) fd = open_object(session, behalf, process, i, object.file().path());
    if (!fd) fail_content(object, "cannot be opened", ENOENT);
    if (is_memfd(object))
      if (const int seals = ::fcntl(fd.get(), F_GET_SEALS); seals > 0) object.set_seals(static_cast<std::uint32_t>(seals));
    if (kept && is_kept_memory(object)) kept->push_back(to_keep(behalf, object, fd.get()));
    if (UniqueFd own = behalf.reopen(fd.get(), O_RDONLY)) fd = std::move(own);
    std::vector<FileRange> ranges;
    if (is_kept_memory(object) && !is_copied(object))
      ranges.clear();  // its content is not saved
    else if (object.kind() == SharedObject::FILE && !object.has_deleted())
      ranges = file_ranges(session, process, i, object.size());
    else
      ranges = data_ranges(fd.get(), object.size());
    for (const FileRange& range : ranges) {
      auto& extent = *object.add_extents();
      extent.set_offset(range.start);
      extent.set_length(range.end - range.start);
      extent.set_blob_offset(total);
      end = total + extent.length();
      total += (range.end - range.start + kPage - 1) & ~(kPage - 1);
      if (object.has_deleted()) deleted += extent.length();
    }
    if (object.has_deleted()) check_limit(process, i, deleted, deleted_limit);
    files.push_back(std::move(fd));
  }
  make_room(end);
  for (int i = 0; i < process.shared_objects_size(); ++i) {
    const SharedObject& object = process.shared_objects(i);
    for (const auto& extent : object.extents()) {
      for (std::uint64_t at = 0; at < extent.length(); at += kChunk) {
        read_content(object, files[static_cast<std::size_t>(i)].get(), extent.offset() + at,
                     data_ + extent.blob_offset() + at, std::min(kChunk, extent.length() - at));
      }
    }
  }
}

void SharedContents::read(std::uint64_t offset, void* buf, std::size_t len) const {
  if (offset > size_ || len > size_ - offset)
    throw Error(Failure::permanent, EINVAL, "shared memory of the snapshot is incomplete");
  std::memcpy(buf, data_ + offset, len);
}

}  // namespace reprise
