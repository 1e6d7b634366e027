// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/shared.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/text.h"
#include "process/mapping_plan.h"
#include "process/shared_open.h"
#include "restore/file_content.h"
#include "restore/nameless_files.h"
#include "restore/on_behalf.h"

namespace reprise {

UniqueFd open_object(Session& session, const OnBehalf& behalf, const Process& process, int index, const std::string& path) {
  const auto number = static_cast<std::uint32_t>(index) + 1;
  const Mapping* shown = nullptr;
  for (const Mapping& mapping : process.mappings()) {
    if (mapping.shared_object() != number) continue;
    // Prefer a writable mapping.
    if (!shown || is_written(mapping.flags())) shown = &mapping;
  }
  const SharedObject& object = process.shared_objects(index);
  if (shown) {
    UniqueFd mapped = session.get_vma_file(shown->start());
    if (object.kind() != SharedObject::FILE || object.file().deleted()) return mapped;
    // Open it by name if the name still refers to that file: on overlayfs the mapping's own file is that of a lower
    // layer. Open with O_PATH and check the type first: the image may name a device or a FIFO, and opening one of those
    // has side effects.
    const UniqueFd named = behalf.open(path, O_PATH);
    struct stat by_name {}, by_mapping {};
    struct statfs where {};
    const bool same = named && ::fstat(named.get(), &by_name) == 0 && ::fstat(mapped.get(), &by_mapping) == 0 &&
                      S_ISREG(by_name.st_mode) && by_name.st_ino == by_mapping.st_ino &&
                      (by_name.st_dev == by_mapping.st_dev ||
                       (::fstatfs(named.get(), &where) == 0 && where.f_type == OVERLAYFS_SUPER_MAGIC));
    if (same)
      if (UniqueFd opened = behalf.reopen(named.get(), O_RDWR)) return opened;
    return mapped;
  }
  for (const Descriptor& descriptor : process.descriptors())
    if (process.descriptions(static_cast<int>(descriptor.description())).shared_object() == number)
      return session.get_fd(descriptor.fd());
  return {};
}

std::vector<FileRange> written_ranges(const Process& image, int index) {
  std::vector<FileRange> ranges;
  for (const Mapping& mapping : image.mappings())
    if (mapping.shared_object() == static_cast<std::uint32_t>(index) + 1 && is_written(mapping.flags()))
      ranges.push_back({mapping.offset(), mapping.offset() + (mapping.end() - mapping.start())});
  merge(ranges);
  return ranges;
}

namespace {

/** Is this the very file that the image's process had mapped read-only? Then there is nothing to restore. */
bool is_untouched(const Process& image, int index, int fd) {
  const SharedObject& object = image.shared_objects(index);
  if (object.kind() != SharedObject::FILE || !written_ranges(image, index).empty()) return false;
  struct stat st {};
  if (::fstat(fd, &st) != 0) fail_content(object, "looking at it", errno);
  return st.st_dev == object.file().dev() && st.st_ino == object.file().ino();
}

void seal(const SharedObject& object, int fd) {
  if (!is_memfd(object) || !object.seals()) return;
  const int now = ::fcntl(fd, F_GET_SEALS);
  const int wanted = static_cast<int>(object.seals());
  if (now >= 0 && (wanted & ~now) && ::fcntl(fd, F_ADD_SEALS, wanted & ~now) != 0) fail_content(object, "sealing it", errno);
}

void restore_object(Session& session, const OnBehalf& behalf, const Process& image, const RestoreOptions& options, int index,
                    const BlobReader& read) {
  const SharedObject& object = image.shared_objects(index);
  const bool unlinked = object.has_deleted() && object.kind() == SharedObject::FILE;
  // As with other files, only the parts of a deleted file that are mapped writable get their content back.
  const std::vector<FileRange> all = {{0, UINT64_MAX}}, within = unlinked ? written_ranges(image, index) : all;
  if (within.empty()) return;
  UniqueFd fd = open_object(session, behalf, image, index, options.relocated(object.file().path()));
  if (!fd) fail_content(object, "it no longer exists", ENOENT);
  if (is_untouched(image, index, fd.get())) return;
  // Use an open file description of our own: seeking must not move the program's file offset.
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
  for (const auto& extent : object.extents()) {
    for (const FileRange& part : intersect({extent.offset(), extent.offset() + extent.length()}, within)) {
      for (std::uint64_t at = part.start; at < part.end; at += chunk) {
        const std::uint64_t len = std::min(chunk, part.end - at);
        read(extent.blob_offset() + (at - extent.offset()), buffer.get(), len);
        write_different(object, fd.get(), at, buffer.get(), buffer.get() + chunk, len);
      }
    }
  }
  seal(object, fd.get());
}

/** @return why seals keep @p object, open as @p fd, from being restored; nullptr if none do or @p fd is another file */
const char* sealed_why(const SharedObject& object, int fd) {
  struct stat st {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || ::fstat(fd, &st) != 0 || st.st_ino != object.file().ino() || st.st_dev != object.file().dev())
    return nullptr;
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
  // Then those that are mapped but no longer open.
  for (const cr_vma& vma : now) {
    const auto object = vma.flags & CR_VMA_SHMEM ? memfds.find(vma.ino) : memfds.end();
    if (object == memfds.end()) continue;
    if (const char* why = sealed_why(*object->second, session.get_vma_file(vma.start).get()))
      refuse_sealed("mapping " + hex(vma.start) + "-" + hex(vma.end), *object->second, why);
    memfds.erase(object);
  }
}

void restore_shared(Session& session, const Process& image, const RestoreOptions& options, RestoreMode mode,
                    const BlobReader& read, NamelessFiles& nameless, const std::set<int>& kept) {
  const OnBehalf behalf = OnBehalf::of(session.pid(), image, options, mode);
  for (int i = 0; i < image.shared_objects_size(); ++i) {
    const SharedObject& object = image.shared_objects(i);
    const auto number = static_cast<std::uint32_t>(i) + 1;
    if (nameless.made().count(number))
      seal(object, nameless.file(number));
    else if (!kept.contains(i) && (mode != RestoreMode::restart || !can_be_made(object)))
      // Skipped: objects in kept and, in a restart, memfds and deleted files that an object of the caller's replaces.
      restore_object(session, behalf, image, options, i, read);
  }
}

}  // namespace reprise
