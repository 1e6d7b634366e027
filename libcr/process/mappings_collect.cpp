// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cerrno>
#include <map>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/text.h"
#include "process/maps.h"
#include "process/mappings.h"
#include "restore/file_identity.h"
#include "restore/kept_memory.h"

namespace reprise {
namespace {

[[noreturn]] void refuse(const cr_vma& vma, std::string_view name, const char* why) {
  std::string text = "mapping " + hex(vma.start) + "-" + hex(vma.end);
  if (!name.empty()) text += " (" + std::string(name) + ")";
  throw Error(Failure::refused, EOPNOTSUPP, text + " " + why);
}

void refuse_unsupported(const cr_vma& vma, std::string_view name) {
  if (vma.flags & CR_VMA_DEVICE) refuse(vma, name, "shows a device's memory, which cannot be saved");
  if (vma.flags & CR_VMA_HUGETLB)
    refuse(vma, name, "is of huge pages from hugetlbfs, which cannot be saved: use transparent huge pages");
  if (vma.flags & CR_VMA_UFFD) refuse(vma, name, "is served by a userfaultfd, which cannot be saved");
  if (vma.flags & CR_VMA_SHADOW_STACK)
    refuse(vma, name, "is a shadow stack, which cannot be saved: start it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off");
}

/** Cache of the files behind mappings, by device and inode. */
class Files {
 public:
  Files(Session& session, Process& process) : session_(session), process_(process) {}

  const File& file(const cr_vma& vma, std::string_view name) {
    const Key key{gnu_dev_makedev(vma.dev_major, vma.dev_minor), vma.ino};
    if (auto found = files_.find(key); found != files_.end()) return found->second;
    File& file = files_[key];
    std::string path = unescape_path(name);
    if (cut_deleted(path, vma.ino, paths_)) file.set_deleted(true);
    file.set_path(path);
    const struct stat st = look_at(vma, name, file);
    if (!S_ISREG(st.st_mode) && !(S_ISCHR(st.st_mode) && st.st_rdev == gnu_dev_makedev(1, 5)))
      refuse(vma, name, "is not of a regular file, which cannot be saved");
    // Use the numbers of the list of mappings: some file systems return another st_dev from stat(2).
    file.set_dev(key.first);
    file.set_ino(key.second);
    file.set_size(static_cast<std::uint64_t>(st.st_size));
    file.set_mtime_ns(st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec);
    file.set_mode(st.st_mode);
    file.set_rdev(st.st_rdev);
    return file;
  }

  /** @return 1 + index of the shared object behind @p vma; 0 if its content is not saved as one */
  std::uint32_t object(const cr_vma& vma, const File& file) {
    SharedObject::Kind kind;
    const bool written = is_written(vma.flags);
    if (!S_ISREG(file.mode())) return 0;
    if ((vma.flags & CR_VMA_SHMEM) && file.deleted() && !is_sysv(file)) {
      // It has no name, so only the image can bring it back: save it even if the mapping is private.
      kind = file.path().starts_with("/memfd:") ? memfd_kind(file.path()) : SharedObject::SHARED_ANONYMOUS;
    } else if (written || (file.deleted() && !is_sysv(file))) {
      kind = SharedObject::FILE;
    } else {
      return 0;
    }
    const Key key{file.dev(), file.ino()};
    std::uint32_t& index = objects_[key];
    if (!index) {
      SharedObject& object = *process_.add_shared_objects();
      object.set_kind(kind);
      *object.mutable_file() = file;
      object.set_size(file.size());
      index = static_cast<std::uint32_t>(process_.shared_objects_size());
    }
    if (vma.flags & CR_VMA_ELSEWHERE) process_.mutable_shared_objects(static_cast<int>(index) - 1)->set_mapped_elsewhere(true);
    return index;
  }

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;

  /**
   * stat() the file by path if it has one: on overlayfs the mapping's own file is that of a lower layer. Throws Error
   * (refused).
   */
  struct stat look_at(const cr_vma& vma, std::string_view name, const File& file) {
    struct stat st {};
    if (!file.deleted()) {
      const UniqueFd named = paths_.open(file.path(), O_PATH);
      if (named && ::fstat(named.get(), &st) == 0 && st.st_ino == vma.ino) return st;
    }
    const UniqueFd fd = session_.get_vma_file(vma.start);
    if (::fstat(fd.get(), &st) != 0) refuse(vma, name, ("cannot be looked at: " + error_text(errno)).c_str());
    return st;
  }

  Session& session_;
  Process& process_;
  const TargetPaths paths_{session_.pid()};
  std::map<Key, File> files_;
  std::map<Key, std::uint32_t> objects_;
};

bool is_vdso(std::string_view name) { return name == "[vdso]" || name.starts_with("[vvar"); }

}  // namespace

void collect_mappings(Session& session, std::span<const cr_vma> vmas, Process& process) {
  MapNames names(session.pid());
  Files files(session, process);
  process.mutable_mappings()->Reserve(static_cast<int>(vmas.size()));
  for (const cr_vma& vma : vmas) {
    if (vma.flags & CR_VMA_ARENA) continue;
    const std::string_view name = names.at(vma.start);
    // Skip [uprobes]: the kernel maps it when it is needed.
    if ((vma.flags & CR_VMA_SPECIAL) && !is_vdso(name)) continue;
    if (!(vma.flags & CR_VMA_SPECIAL)) refuse_unsupported(vma, name);
    Mapping& mapping = *process.add_mappings();
    mapping.set_start(vma.start);
    mapping.set_end(vma.end);
    mapping.set_flags(vma.flags & ~CR_VMA_ELSEWHERE);
    mapping.set_offset(vma.offset);
    mapping.set_pkey(vma.pkey);
    if ((vma.flags & CR_VMA_FILE) && !(vma.flags & CR_VMA_SPECIAL)) {
      const File& file = files.file(vma, name);
      *mapping.mutable_file() = file;
      mapping.set_shared_object(files.object(vma, file));
    } else {
      mapping.set_name(std::string(name));
    }
  }
}

}  // namespace reprise
