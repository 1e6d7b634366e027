// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/sharing.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/channel_name.h"
#include "base/text.h"
#include "restore/kept_memory.h"
#include "restore/on_behalf.h"

namespace reprise {
namespace {

constexpr std::uint64_t kChunk = 1 << 20;

/** The current state of a shared object of the image. */
struct Found {
  UniqueFd fd;
  Sharers sharers;
  bool open_elsewhere = false;  ///< another process holds an open file description of it
  bool shared() const { return sharers.mappings || open_elsewhere; }
};

class Finder {
 public:
  Finder(Session& session, std::span<const cr_vma> now, const Process& image, const MappingFiles& files, RestoreMode mode)
      : session_(session), now_(now), image_(image), files_(files), mode_(mode) {}

  Found find(int index) {
    const SharedObject& object = image_.shared_objects(index);
    Found found;
    // In a restart the new process has only the files that were opened for it.
    if (mode_ == RestoreMode::pause) {
      std::uint64_t here = 0;
      for (const cr_vma& vma : now_) {
        if (!is_of(vma, object.file())) continue;
        ++here;
        if (!found.fd || is_written(vma.flags)) found.fd = session_.get_vma_file(vma.start);
      }
      if (object.kind() == SharedObject::MEMFD) look_at_descriptors(object, here, found);
    }
    if (!found.fd)
      if (const int opened = files_.find(static_cast<std::uint32_t>(index) + 1); opened >= 0) found.fd.reset(::fcntl(opened, F_DUPFD_CLOEXEC, 0));
    if (found.fd) found.sharers = session_.sharers(found.fd.get());
    return found;
  }

 private:
  static bool is_of(const cr_vma& vma, const File& file) {
    return (vma.flags & CR_VMA_FILE) && vma.ino == file.ino() && gnu_dev_makedev(vma.dev_major, vma.dev_minor) == file.dev();
  }

  /** Compare refcounts: descriptors and mappings of the target each hold one reference; others are someone else's. */
  void look_at_descriptors(const SharedObject& object, std::uint64_t mappings_here, Found& found) {
    if (!have_fds_) fds_ = session_.fds(), have_fds_ = true;
    for (const cr_fd& live : fds_) {
      if (live.same_as != live.fd || !S_ISREG(live.mode) || live.ino != object.file().ino()) continue;
      UniqueFd fd = session_.get_fd(live.fd);
      struct stat st {};
      if (::fstat(fd.get(), &st) != 0 || st.st_dev != object.file().dev()) continue;
      if (live.refs > live.refs_here + mappings_here) found.open_elsewhere = true;
      if (!found.fd) found.fd = std::move(fd);
    }
  }

  Session& session_;
  std::span<const cr_vma> now_;
  const Process& image_;
  const MappingFiles& files_;
  RestoreMode mode_;
  std::vector<cr_fd> fds_;
  bool have_fds_ = false;
};

/** Read @p len bytes; fill with zeros beyond the end of file. */
void read_all(const std::string& name, int fd, std::uint64_t offset, char* buf, std::uint64_t len) {
  while (len > 0) {
    const ssize_t got = ::pread(fd, buf, len, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(Failure::permanent, errno, name + ": reading: " + error_text(errno));
    if (got == 0) {
      std::memset(buf, 0, len);
      return;
    }
    buf += got;
    offset += static_cast<std::uint64_t>(got);
    len -= static_cast<std::uint64_t>(got);
  }
}

/** Does [from, to) contain only zeros? */
bool is_empty(const std::string& name, int fd, std::uint64_t from, std::uint64_t to, char* buf) {
  while (from < to) {
    const off_t data = ::lseek(fd, static_cast<off_t>(from), SEEK_DATA);
    if (data < 0 || static_cast<std::uint64_t>(data) >= to) return true;
    from = static_cast<std::uint64_t>(data);
    const std::uint64_t len = std::min(kChunk, to - from);
    read_all(name, fd, from, buf, len);
    if (std::any_of(buf, buf + len, [](char byte) { return byte != 0; })) return false;
    from += len;
  }
  return true;
}

/** Does the content equal that in the image? */
bool is_as_saved(const std::string& name, const SharedObject& object, int fd, const BlobReader& read) {
  const bool whole = object.kind() != SharedObject::FILE;
  struct stat st {};
  if (whole && (::fstat(fd, &st) != 0 || static_cast<std::uint64_t>(st.st_size) != object.size())) return false;
  const auto buffer = std::make_unique<char[]>(2 * kChunk);
  std::uint64_t end = 0;
  for (const auto& extent : object.extents()) {
    if (whole && !is_empty(name, fd, end, extent.offset(), buffer.get())) return false;
    for (std::uint64_t at = 0; at < extent.length(); at += kChunk) {
      const std::uint64_t len = std::min(kChunk, extent.length() - at);
      read(extent.blob_offset() + at, buffer.get(), len);
      read_all(name, fd, extent.offset() + at, buffer.get() + kChunk, len);
      if (std::memcmp(buffer.get(), buffer.get() + kChunk, len) != 0) return false;
    }
    end = extent.offset() + extent.length();
  }
  return !whole || is_empty(name, fd, end, object.size(), buffer.get());
}

/** Could the image's process write it? An object that it could only read is not restored. */
bool is_writable(const Process& image, int index) {
  const auto number = static_cast<std::uint32_t>(index) + 1;
  for (const Mapping& mapping : image.mappings())
    if (mapping.shared_object() == number && is_written(mapping.flags())) return true;
  for (const Description& description : image.descriptions())
    if (description.shared_object() == number && (description.flags() & O_ACCMODE) != O_RDONLY) return true;
  return false;
}

std::string name_of(const Process& image, int index, bool by_descriptor) {
  const auto number = static_cast<std::uint32_t>(index) + 1;
  if (!by_descriptor)
    for (const Mapping& mapping : image.mappings())
      if (mapping.shared_object() == number) return mapping_name(mapping);
  for (const Descriptor& descriptor : image.descriptors())
    if (image.descriptions(static_cast<int>(descriptor.description())).shared_object() == number)
      return "descriptor " + std::to_string(descriptor.fd()) + " (" + image.shared_objects(index).file().path() + ")";
  return "shared memory " + image.shared_objects(index).file().path();
}

std::string sharer_of(const Found& found) {
  if (!found.sharers.mappings) return "is open in another process, too,";
  const std::string who = found.sharers.pid ? "process " + std::to_string(found.sharers.pid) : "another process";
  return "is mapped by " + who + ", too,";
}

}  // namespace

bool is_channel(const SharedObject& object) {
  return object.kind() == SharedObject::MEMFD && object.file().path() == std::string("/memfd:").append(kChannelName);
}

std::set<int> check_sharing(Session& session, std::span<const cr_vma> now, const Process& image, const MappingFiles& files,
                            const RestoreOptions& options, RestoreMode mode, const BlobReader& read, Report& report) {
  std::set<int> kept;
  for (int i = 0; i < image.shared_objects_size(); ++i)
    if (is_kept_memory(image.shared_objects(i))) kept.insert(i);  // whoever shares it
  if (options.shared_memory == SharedMemory::restore || image.shared_objects_size() == 0) return kept;
  Finder finder(session, now, image, files, mode);
  std::optional<OnBehalf> behalf;
  for (int i = 0; i < image.shared_objects_size(); ++i) {
    const SharedObject& object = image.shared_objects(i);
    if (object.kind() == SharedObject::FILE && !is_writable(image, i)) continue;
    if (is_channel(object) || is_kept_memory(object)) continue;
    Found found = finder.find(i);
    if (!found.shared()) continue;
    kept.insert(i);
    if (!is_writable(image, i)) continue;
    const std::string name = name_of(image, i, !found.sharers.mappings);
    if (!behalf) behalf = OnBehalf::of(session.pid(), image, options, mode);
    if (UniqueFd own = behalf->reopen(found.fd.get(), O_RDONLY)) found.fd = std::move(own);
    if (is_as_saved(name, object, found.fd.get(), read)) continue;
    const std::string text = name + " " + sharer_of(found) + " and has changed since the checkpoint";
    if (options.shared_memory == SharedMemory::refuse)
      throw Error(Failure::refused, EPERM,
                  text + ": choose --shared-memory=keep or --shared-memory=restore");
    report.warnings.push_back(text + ": kept as it is now");
  }
  return kept;
}

}  // namespace reprise
