// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/shared.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "process/mapping_plan.h"
#include "restore/file_content.h"
#include "restore/nameless_files.h"
#include "restore/on_behalf.h"
#include "session/pulse.h"

namespace reprise {
namespace {

constexpr std::uint64_t kPage = 4096;
// Of a file mapped writable everything is saved up to this, beyond it what the process had touched.
constexpr std::uint64_t kWholeFile = 64ULL << 20;

/** The target's own open file for object number @p index, which lies under @p path if it has a name. */
UniqueFd open_object(Session& session, const OnBehalf& behalf, const Process& process, int index, const std::string& path) {
  const auto number = static_cast<std::uint32_t>(index) + 1;
  const Mapping* shown = nullptr;
  for (const Mapping& mapping : process.mappings()) {
    if (mapping.shared_object() != number) continue;
    // Rather one through which can be written.
    if (!shown || is_written(mapping.flags())) shown = &mapping;
  }
  const SharedObject& object = process.shared_objects(index);
  if (shown) {
    UniqueFd mapped = session.get_vma_file(shown->start());
    if (object.kind() != SharedObject::FILE || object.file().deleted()) return mapped;
    // By its name if it still is that file: on stacked file systems the mapping's own is that of a lower layer.
    // Looked at before it is opened: an image may name anything, and to open a device or a FIFO is to act.
    const UniqueFd named = behalf.open(path, O_PATH);
    struct stat by_name {}, by_mapping {};
    const bool same = named && ::fstat(named.get(), &by_name) == 0 && ::fstat(mapped.get(), &by_mapping) == 0 &&
                      S_ISREG(by_name.st_mode) && by_name.st_ino == by_mapping.st_ino;
    if (same)
      if (UniqueFd opened = behalf.reopen(named.get(), O_RDWR)) return opened;
    return mapped;
  }
  for (const Descriptor& descriptor : process.descriptors())
    if (process.descriptions(static_cast<int>(descriptor.description())).shared_object() == number)
      return session.get_fd(descriptor.fd());
  return {};
}

/** Any open file of the target that shows object number @p index, and can be read. */
UniqueFd open_to_read(Session& session, const OnBehalf& behalf, const Process& process, int index) {
  const auto number = static_cast<std::uint32_t>(index) + 1;
  for (const Descriptor& descriptor : process.descriptors()) {
    const Description& description = process.descriptions(static_cast<int>(descriptor.description()));
    if (description.shared_object() != number) continue;
    if (UniqueFd file = to_be_read(behalf, session.get_fd(descriptor.fd()), description.flags())) return file;
  }
  return {};
}

/** Bytes of deleted files are copied while the process stands still, and take memory and room in the image. */
void check_limit(const Process& process, int index, std::uint64_t bytes, std::uint64_t limit) {
  if (bytes <= limit) return;
  std::string who = "file " + process.shared_objects(index).file().path();
  for (const Descriptor& descriptor : process.descriptors())
    if (process.descriptions(static_cast<int>(descriptor.description())).shared_object() == static_cast<std::uint32_t>(index) + 1) {
      who = "descriptor " + std::to_string(descriptor.fd()) + " (" + who + ")";
      break;
    }
  throw Error(Failure::refused, EFBIG,
              who + ": the deleted files that are open hold " + std::to_string(bytes) + " bytes, and no more than " +
                  std::to_string(limit) + " are saved: raise that with --deleted-limit, or save none for a pause alone with "
                  "--deleted-limit 0");
}

/** Pages of @p mapping that the process has touched, as ranges of the file. */
void add_touched(pid_t pid, const Mapping& mapping, std::vector<FileRange>& out) {
  constexpr std::uint64_t present = 3ULL << 62;  // in memory or in swap
  const UniqueFd pagemap(::open(("/proc/" + std::to_string(pid) + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  if (!pagemap) throw Error(Failure::permanent, errno, mapping_name(mapping) + ": cannot tell its touched pages");
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

/** Which parts of a file must be saved: what the process could write through its mappings, and all that it can read
 *  of a file that has no name any more. */
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

/** Through which parts of the object number @p index the image's process could write; merged. */
std::vector<FileRange> written_ranges(const Process& image, int index) {
  std::vector<FileRange> ranges;
  for (const Mapping& mapping : image.mappings())
    if (mapping.shared_object() == static_cast<std::uint32_t>(index) + 1 && is_written(mapping.flags()))
      ranges.push_back({mapping.offset(), mapping.offset() + (mapping.end() - mapping.start())});
  merge(ranges);
  return ranges;
}

/** The file that the image's process had mapped, and it could not write it: it is as it was. */
bool is_untouched(const Process& image, int index, int fd) {
  const SharedObject& object = image.shared_objects(index);
  if (object.kind() != SharedObject::FILE || !written_ranges(image, index).empty()) return false;
  struct stat st {};
  if (::fstat(fd, &st) != 0) fail_content(object, "looking at it", errno);
  return st.st_dev == object.file().dev() && st.st_ino == object.file().ino();
}

void seal(const SharedObject& object, int fd) {
  if (object.kind() != SharedObject::MEMFD || !object.seals()) return;
  const int now = ::fcntl(fd, F_GET_SEALS);
  const int wanted = static_cast<int>(object.seals());
  if (now >= 0 && (wanted & ~now) && ::fcntl(fd, F_ADD_SEALS, wanted & ~now) != 0) fail_content(object, "sealing it", errno);
}

void restore_object(Session& session, const OnBehalf& behalf, const Process& image, const RestoreOptions& options, int index,
                    const BlobReader& read) {
  const SharedObject& object = image.shared_objects(index);
  const bool unlinked = object.has_deleted() && object.kind() == SharedObject::FILE;
  // The content of a deleted file is as it is now, as that of other files: but for what is mapped.
  const std::vector<FileRange> all = {{0, UINT64_MAX}}, within = unlinked ? written_ranges(image, index) : all;
  if (within.empty()) return;
  UniqueFd fd = open_object(session, behalf, image, index, options.relocated(object.file().path()));
  if (!fd) fail_content(object, "it is not there any more", ENOENT);
  if (is_untouched(image, index, fd.get())) return;
  // Under a description of our own: seeking must not move the program's position.
  if (UniqueFd own = behalf.reopen(fd.get(), O_RDWR)) fd = std::move(own);
  if (object.kind() != SharedObject::FILE) {
    struct stat st {};
    if (::fstat(fd.get(), &st) != 0) fail_content(object, "looking at it", errno);
    if (static_cast<std::uint64_t>(st.st_size) != object.size() &&
        ::ftruncate(fd.get(), static_cast<off_t>(object.size())) != 0)
      fail_content(object, "setting its size", errno);
  }
  if (unlinked || object.kind() != SharedObject::FILE) punch_since(object, fd.get(), within);
  constexpr std::uint64_t chunk = 1 << 20;
  const auto buffer = std::make_unique<char[]>(2 * chunk);
  Pulse pulse(session);
  for (const auto& extent : object.extents()) {
    for (const FileRange& part : intersect({extent.offset(), extent.offset() + extent.length()}, within)) {
      for (std::uint64_t at = part.start; at < part.end; at += chunk) {
        const std::uint64_t len = std::min(chunk, part.end - at);
        read(extent.blob_offset() + (at - extent.offset()), buffer.get(), len);
        write_different(object, fd.get(), at, buffer.get(), buffer.get() + chunk, len);
        pulse.beat();
      }
    }
  }
  seal(object, fd.get());
}

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

void SharedContents::collect(Session& session, Process& process, std::uint64_t deleted_limit) {
  const OnBehalf behalf = OnBehalf::of_process(session.pid());
  std::vector<UniqueFd> files;
  std::uint64_t deleted = 0;
  std::uint64_t total = 0, end = 0;  // each extent begins at a page of the blob, the last may end inside one
  for (int i = 0; i < process.shared_objects_size(); ++i) {
    SharedObject& object = *process.mutable_shared_objects(i);
    UniqueFd fd = is_kept(object) ? open_to_read(session, behalf, process, i) : UniqueFd();
    if (!fd) fd = open_object(session, behalf, process, i, object.file().path());
    if (!fd) fail_content(object, "cannot be opened", ENOENT);
    if (object.kind() == SharedObject::MEMFD)
      if (const int seals = ::fcntl(fd.get(), F_GET_SEALS); seals > 0) object.set_seals(static_cast<std::uint32_t>(seals));
    if (UniqueFd own = behalf.reopen(fd.get(), O_RDONLY)) fd = std::move(own);
    std::vector<FileRange> ranges;
    if (object.kind() == SharedObject::FILE && !object.has_deleted())
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
  if (!total) return;
  void* room = ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    throw Error(Failure::temporary, errno, "no memory for " + std::to_string(total) + " bytes of shared memory");
  data_ = static_cast<char*>(room);
  size_ = end;
  constexpr std::uint64_t chunk = 16 << 20;
  Pulse pulse(session);
  for (int i = 0; i < process.shared_objects_size(); ++i) {
    const SharedObject& object = process.shared_objects(i);
    for (const auto& extent : object.extents()) {
      for (std::uint64_t at = 0; at < extent.length(); at += chunk) {
        read_content(object, files[static_cast<std::size_t>(i)].get(), extent.offset() + at, data_ + extent.blob_offset() + at,
                     std::min(chunk, extent.length() - at));
        pulse.beat();
      }
    }
  }
}

void SharedContents::read(std::uint64_t offset, void* buf, std::size_t len) const {
  if (offset > size_ || len > size_ - offset)
    throw Error(Failure::permanent, EINVAL, "shared memory of the snapshot is incomplete");
  std::memcpy(buf, data_ + offset, len);
}

namespace {

/** What of @p object, open as @p fd, cannot be undone; nullptr: nothing. Another file: nothing, either. */
const char* sealed_why(const SharedObject& object, int fd) {
  struct stat st {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || ::fstat(fd, &st) != 0 || st.st_ino != object.file().ino()) return nullptr;
  const auto size = static_cast<std::uint64_t>(st.st_size);
  if ((seals & F_SEAL_SHRINK) && size > object.size()) return "has grown since the checkpoint and is sealed against shrinking";
  if ((seals & F_SEAL_GROW) && size < object.size()) return "has shrunk since the checkpoint and is sealed against growing";
  if (static_cast<std::uint32_t>(seals) & ~object.seals()) return "has been sealed since the checkpoint";
  return nullptr;
}

[[noreturn]] void refuse_sealed(const std::string& what, const SharedObject& object, const char* why) {
  throw Error(Failure::refused, EPERM,
              what + " (" + object.file().path() + ") " + why +
                  ": it cannot be brought back in place, restart the image instead");
}

}  // namespace

void check_seals(Session& session, std::span<const cr_vma> now, const Process& image) {
  std::map<std::uint64_t, const SharedObject*> memfds;  // by inode
  for (const SharedObject& object : image.shared_objects())
    if (object.kind() == SharedObject::MEMFD) memfds.emplace(object.file().ino(), &object);
  if (memfds.empty()) return;
  for (const cr_fd& live : session.fds()) {
    if (live.same_as != live.fd || !S_ISREG(live.mode)) continue;
    const auto object = memfds.find(live.ino);
    if (object == memfds.end()) continue;
    if (const char* why = sealed_why(*object->second, session.get_fd(live.fd).get()))
      refuse_sealed("descriptor " + std::to_string(live.fd), *object->second, why);
  }
  // Or only mapped by now.
  for (const cr_vma& vma : now) {
    const auto object = vma.flags & CR_VMA_SHMEM ? memfds.find(vma.ino) : memfds.end();
    if (object == memfds.end()) continue;
    if (const char* why = sealed_why(*object->second, session.get_vma_file(vma.start).get()))
      refuse_sealed("mapping " + hex(vma.start) + "-" + hex(vma.end), *object->second, why);
    memfds.erase(object);
  }
}

void restore_shared(Session& session, const Process& image, const RestoreOptions& options, RestoreMode mode,
                    const BlobReader& read, NamelessFiles& nameless) {
  const OnBehalf behalf = OnBehalf::of(session.pid(), image, options, mode);
  for (int i = 0; i < image.shared_objects_size(); ++i) {
    const SharedObject& object = image.shared_objects(i);
    const auto number = static_cast<std::uint32_t>(i) + 1;
    if (nameless.made().count(number))
      seal(object, nameless.file(number));
    else if (mode != RestoreMode::restart || !is_kept(object))  // else something of the caller's has taken its place
      restore_object(session, behalf, image, options, i, read);
  }
}

}  // namespace reprise
