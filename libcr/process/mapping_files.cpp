// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <cerrno>
#include <set>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/text.h"
#include "process/mappings.h"
#include "restore/nameless_files.h"

namespace reprise {
namespace {

/** Has the object no name? Then it is recreated from the image if it no longer exists. */
bool is_nameless(const SharedObject& object) {
  return can_be_made(object) || object.kind() == SharedObject::SHARED_ANONYMOUS ||
         (object.file().deleted() && !is_sysv(object.file()));
}

const SharedObject* object_of(const Mapping& mapping, const Process& image) {
  return mapping.shared_object() ? &image.shared_objects(static_cast<int>(mapping.shared_object()) - 1) : nullptr;
}

[[noreturn]] void refuse(const Mapping& mapping, const std::string& why, int err = 0) {
  throw Error(Failure::refused, err, mapping_name(mapping) + ": " + why);
}

/** @return the open file; none, with errno, if it does not exist. Throws Error (refused) on other errors. */
UniqueFd open_if_there(const OnBehalf& behalf, const Mapping& mapping, const std::string& path) {
  UniqueFd fd = behalf.open(path, (is_written(mapping.flags()) ? O_RDWR : O_RDONLY) | O_NOCTTY);
  if (!fd && errno != ENOENT) refuse(mapping, "cannot open " + path + ": " + error_text(errno), errno);
  return fd;
}

/** Does the image hold all of its content? */
bool is_whole(const SharedObject& object) {
  std::uint64_t at = 0;
  for (const auto& extent : object.extents()) {
    if (extent.offset() > at) return false;
    at = std::max(at, extent.offset() + extent.length());
  }
  return at >= object.size();
}

/**
 * Is this the content that the image's process had mapped? Compares size and mtime: they are equal on nodes that have
 * the same package installed, device and inode numbers are not.
 */
bool same_content(const File& file, const struct stat& st) {
  return file.size() == static_cast<std::uint64_t>(st.st_size) &&
         file.mtime_ns() == st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec;
}

/**
 * Find the file of a mapping that a pause remakes. Take the file at its path if it has the inode of the checkpoint or
 * that of the current mapping: a restart may have mapped a file with another inode. Otherwise take the currently mapped
 * file if its content is the same, as after a restart with --relocate. Throws Error (refused).
 */
UniqueFd find_file(Session& session, const OnBehalf& behalf, std::span<const cr_vma> now, std::uint64_t start,
                   const Mapping& mapping, const SharedObject* object) {
  const File& file = mapping.file();
  const auto there = std::find_if(now.begin(), now.end(), [&](const cr_vma& vma) {
    return vma.start <= start && start < vma.end && (vma.flags & CR_VMA_FILE);
  });
  struct stat st {};
  UniqueFd fd = open_if_there(behalf, mapping, file.path());
  if (fd) {
    if (::fstat(fd.get(), &st) != 0) refuse(mapping, error_text(errno), errno);
    const bool known = st.st_ino == file.ino() || (there != now.end() && st.st_ino == there->ino);
    if (!S_ISREG(st.st_mode) || (known && (object || same_content(file, st)))) return fd;
  }
  if (there != now.end() && !object) {
    fd = session.get_vma_file(there->start);
    if (::fstat(fd.get(), &st) == 0 && same_content(file, st)) return fd;
  }
  refuse(mapping, "it was unmapped since the checkpoint, and its file has been changed", ESTALE);
}

}  // namespace

MappingFiles::Key MappingFiles::key_of(const Mapping& mapping) {
  // Mappings of one file need two descriptors if some are writable and some are not.
  if (mapping.shared_object()) return {mapping.shared_object(), is_written(mapping.flags()) ? "w:" : "r:"};
  return {0, (is_written(mapping.flags()) ? "w:" : "r:") + mapping.file().path()};
}

MappingFiles::~MappingFiles() {
  if (made_.empty()) return;
  const OnBehalf::Rights rights(*behalf_);
  for (const std::string& path : made_) ::unlink(path.c_str());
}

UniqueFd MappingFiles::make_file(const OnBehalf& behalf, const Mapping& mapping, const SharedObject* object,
                                 const std::string& path) {
  if (!object || !is_whole(*object))
    refuse(mapping, "cannot open " + path + ": " + error_text(ENOENT) + ": bring it back or use --relocate", ENOENT);
  // Mask set-user-ID and set-group-ID: an image must not make us create a file that runs with our rights.
  UniqueFd fd = behalf.open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mapping.file().mode() & 0777);
  if (!fd) refuse(mapping, path + " is gone and cannot be made again: " + error_text(errno), errno);
  behalf_ = behalf;
  made_.push_back(path);
  if (::ftruncate(fd.get(), static_cast<off_t>(object->size())) != 0)
    refuse(mapping, path + " is gone and cannot be made again: " + error_text(errno), errno);
  return fd;
}

void MappingFiles::keep(Report& report) {
  for (const std::string& path : made_) report.warnings.push_back("file " + path + " was gone: made again from the image");
  made_.clear();
}

MappingFiles MappingFiles::for_restart(const Process& image, const RestoreOptions& options, const MappingPlan* plan) {
  MappingFiles files;
  const OnBehalf behalf = OnBehalf::of_image(image, options);
  std::set<int> made;
  if (plan)
    for (const MappingPlan::Map& step : plan->maps) made.insert(step.mapping);
  for (int index = 0; index < image.mappings_size(); ++index) {
    const Mapping& mapping = image.mappings(index);
    if (!mapping.has_file() || (plan && !made.contains(index))) continue;
    const Key key = key_of(mapping);
    if (files.files_.count(key)) continue;
    const SharedObject* object = object_of(mapping, image);
    Entry entry;
    if (!object || !is_nameless(*object)) {
      const File& file = mapping.file();
      if (is_sysv(file))
        refuse(mapping, "System V shared memory cannot be attached again: detach it (shmdt) before the checkpoint", ENOENT);
      const std::string path = options.relocated(file.path());
      entry.fd = open_if_there(behalf, mapping, path);
      if (!entry.fd) entry.fd = files.make_file(behalf, mapping, object, path);
      struct stat st {};
      if (::fstat(entry.fd.get(), &st) != 0) refuse(mapping, error_text(errno), errno);
      if ((st.st_mode & S_IFMT) != (file.mode() & S_IFMT)) refuse(mapping, path + " is another kind of file now");
      // A file that was mapped shared and writable gets its content back; all others must be unchanged.
      if (object && static_cast<std::uint64_t>(st.st_size) < object->size() && !is_whole(*object))
        refuse(mapping, path + " is shorter than it was, and the image does not hold all of it", ESTALE);
      if (S_ISREG(st.st_mode) && !object && !same_content(file, st))
        refuse(mapping, path + " has been changed since the checkpoint (upgraded?): restore it or use --relocate", ESTALE);
    }
    files.files_.emplace(key, std::move(entry));
  }
  return files;
}

MappingFiles MappingFiles::for_pause(Session& session, std::span<const cr_vma> now, const MappingPlan& plan,
                                     const Process& image, const OnBehalf& behalf) {
  MappingFiles files;
  std::vector<cr_fd> fds;
  bool have_fds = false;
  for (const MappingPlan::Map& step : plan.maps) {
    const Mapping& mapping = image.mappings(step.mapping);
    if (!mapping.has_file()) continue;
    const Key key = key_of(mapping);
    if (files.files_.count(key)) continue;
    const File& file = mapping.file();
    Entry entry;
    const SharedObject* object = object_of(mapping, image);
    const bool nameless = object && is_nameless(*object);
    // Take a deleted file from another mapping of it whose file was opened with the needed access mode.
    for (const cr_vma& vma : now) {
      if (!nameless && !file.deleted()) break;
      if (!(vma.flags & CR_VMA_FILE) || vma.ino != file.ino()) continue;
      if (gnu_dev_makedev(vma.dev_major, vma.dev_minor) != file.dev()) continue;
      if (is_written(mapping.flags()) && !is_written(vma.flags)) continue;
      entry.fd = session.get_vma_file(vma.start);
      break;
    }
    if (!entry.fd && nameless) {
      // Or from a descriptor. If there is none either, target_fd() recreates the memory.
      if (!have_fds) fds = session.fds(), have_fds = true;
      for (const cr_fd& fd : fds) {
        if (fd.ino != file.ino() || !S_ISREG(fd.mode)) continue;
        if (is_written(mapping.flags()) && (fd.f_flags & O_ACCMODE) != O_RDWR) continue;
        UniqueFd candidate = session.get_fd(fd.fd);
        struct stat st {};
        if (::fstat(candidate.get(), &st) != 0 || st.st_dev != file.dev()) continue;
        entry.fd = std::move(candidate);
        break;
      }
    } else if (!entry.fd) {
      entry.fd = find_file(session, behalf, now, step.start, mapping, object);
    }
    files.files_.emplace(key, std::move(entry));
  }
  return files;
}

void MappingFiles::add_nameless(const Process& image, NamelessFiles& nameless) {
  for (auto& [key, entry] : files_) {
    if (entry.fd || key.first == 0) continue;
    const SharedObject& object = image.shared_objects(static_cast<int>(key.first) - 1);
    if (!can_be_made(object)) continue;
    entry.fd = nameless.open(key.first, key.second.front() == 'w' ? O_RDWR : O_RDONLY);
    if (!entry.fd)
      throw Error(Failure::refused, errno,
                  "mapped file " + object.file().path() + ", which has no name, cannot be opened: " + error_text(errno));
  }
}

bool MappingFiles::is_remade(std::uint32_t number) const {
  return files_.count(Key{number, "w:"}) > 0 || files_.count(Key{number, "r:"}) > 0;
}

int MappingFiles::find(std::uint32_t number) const {
  for (const char* how : {"w:", "r:"})
    if (const auto entry = files_.find(Key{number, how}); entry != files_.end() && entry->second.fd)
      return entry->second.fd.get();
  return -1;
}

std::uint64_t MappingFiles::gap_size(const MappingPlan& plan, const Process& image) {
  std::uint64_t size = 0;
  for (const MappingPlan::Map& step : plan.maps) {
    const SharedObject* object = object_of(image.mappings(step.mapping), image);
    if (object && object->kind() == SharedObject::SHARED_ANONYMOUS) size = std::max(size, object->size());
  }
  for (const MappingPlan::Move& step : plan.moves) size += step.size;
  return (size + 0xfff) & ~0xfffULL;
}

int MappingFiles::target_fd(Session& session, Remote& remote, const Mapping& mapping, const Process& image,
                            std::uint64_t gap) {
  Entry& entry = files_.at(key_of(mapping));
  if (entry.target_fd >= 0) return entry.target_fd;
  if (!entry.fd) {
    const SharedObject& object = *object_of(mapping, image);
    // The entry with the other access mode may have created the memory already.
    for (const char* how : {"w:", "r:"}) {
      const auto other = files_.find(Key{mapping.shared_object(), how});
      if (other != files_.end() && other->second.fd)
        return entry.target_fd = session.put_fd(other->second.fd.get(), true);
    }
    if (object.kind() != SharedObject::SHARED_ANONYMOUS) {
      // A memfd, or a deleted file that was mapped but not open: a new memfd with the same content replaces it.
      const std::string& path = object.file().path();
      entry.fd.reset(::memfd_create(path.substr(path.find_last_of('/') + 1).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
      if (!entry.fd || ::ftruncate(entry.fd.get(), static_cast<off_t>(object.size())) != 0)
        throw Error(Failure::permanent, errno, mapping_name(mapping) + ": cannot make its memory: " + error_text(errno));
    } else {
      // Only mmap() creates anonymous shared memory: map all of it once to get its file.
      const std::uint64_t size = (object.size() + 0xfff) & ~0xfffULL;
      remote.must("making shared memory", 0, SYS_mmap, gap, size, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, static_cast<std::uint64_t>(-1), 0);
      entry.fd = session.get_vma_file(gap);
      remote.must("making shared memory", 0, SYS_munmap, gap, size);
    }
  }
  return entry.target_fd = session.put_fd(entry.fd.get(), true);
}

}  // namespace reprise
