// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Open files that were deleted. Their content is a shared object of the image, from which a restore recreates the file
// (restore/nameless_files.h).
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include <array>
#include <cerrno>

#include "descriptors/kinds.h"
#include "restore/file_content.h"
#include "restore/kept_memory.h"

namespace reprise {
namespace {

/** Is the file on a pseudo file system, whose files have no content that could be saved? */
bool is_made_up(int fd) {
  struct statfs where = {};
  if (::fstatfs(fd, &where) != 0) return true;
  switch (static_cast<unsigned long>(where.f_type)) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case SECURITYFS_MAGIC:
    case BPF_FS_MAGIC:
    case HUGETLBFS_MAGIC:
    case 0x19800202:  // message queues
      return true;
    default: return false;
  }
}

/** Save the extended attributes that the owner can set; the system where the file is made sets the others. */
void collect_attributes(int fd, Deleted& deleted) {
  std::array<char, 65536> names, value;
  const ssize_t all = ::flistxattr(fd, names.data(), names.size());
  for (ssize_t at = 0; at < all;) {
    const std::string name = names.data() + at;
    at += static_cast<ssize_t>(name.size()) + 1;
    if (name.rfind("user.", 0) != 0 && name != "system.posix_acl_access") continue;
    const ssize_t size = ::fgetxattr(fd, name.c_str(), value.data(), value.size());
    if (size < 0) continue;
    auto& attribute = *deleted.add_attributes();
    attribute.set_name(name);
    attribute.set_value(value.data(), static_cast<std::size_t>(size));
  }
}

/** @return 1 + index of the shared object for @p file; adds one unless mappings or other descriptors already have */
std::uint32_t object_of(Process& image, const File& file) {
  for (int i = 0; i < image.shared_objects_size(); ++i) {
    const SharedObject& object = image.shared_objects(i);
    if (is_memfd(object) || !object.file().deleted() || object.file().ino() != file.ino()) continue;
    // overlayfs reports another device for a mapped file than for an open one, but the same path.
    if (object.file().dev() == file.dev() || object.file().path() == file.path()) return static_cast<std::uint32_t>(i) + 1;
  }
  SharedObject& object = *image.add_shared_objects();
  object.set_kind(SharedObject::FILE);
  *object.mutable_file() = file;
  object.set_size(file.size());
  return static_cast<std::uint32_t>(image.shared_objects_size());
}

bool has_name(Collector& collector, const std::string& path, const File& file) {
  const UniqueFd named = collector.behalf.open(path, O_PATH | O_NOFOLLOW);
  struct ::stat now;
  return named && ::fstat(named.get(), &now) == 0 && now.st_ino == file.ino() && now.st_dev == file.dev();
}

}  // namespace

void collect_deleted(Collector& collector, const cr_fd& fd, Description& description, const struct ::stat& status) {
  File& file = *description.mutable_file();
  if (status.st_nlink > 0) {
    // The kernel may have dropped only its cached name, as on network file systems.
    if (has_name(collector, file.path(), file))
      file.set_deleted(false);
    else
      file.set_links(static_cast<std::uint32_t>(status.st_nlink));
    return;
  }
  if (!S_ISREG(status.st_mode) || !collector.save_deleted) return;
  const UniqueFd ours = to_be_read(collector.behalf, collector.source.get(fd.fd), fd.f_flags);
  if (!ours || is_made_up(ours.get())) return;
  const std::uint32_t number = object_of(collector.image, file);
  description.set_shared_object(number);
  SharedObject& object = *collector.image.mutable_shared_objects(static_cast<int>(number) - 1);
  if (object.has_deleted()) return;
  Deleted& deleted = *object.mutable_deleted();
  deleted.set_uid(status.st_uid);
  deleted.set_gid(status.st_gid);
  deleted.set_atime_ns(status.st_atim.tv_sec * 1'000'000'000LL + status.st_atim.tv_nsec);
  const OnBehalf::Rights rights(collector.behalf);
  collect_attributes(ours.get(), deleted);
}

void finish_deleted(Collector& collector) {
  for (Description& one : *collector.image.mutable_descriptions()) {
    if (one.file().links() == 0) continue;
    for (const Description& other : collector.image.descriptions()) {
      const File& named = other.file();
      if (named.deleted() || named.ino() != one.file().ino() || named.dev() != one.file().dev()) continue;
      if (!has_name(collector, named.path(), one.file())) continue;
      *one.mutable_file() = named;
      break;
    }
  }
}

}  // namespace reprise
