// SPDX-License-Identifier: LGPL-2.1-or-later
#include "restore/nameless_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/text.h"
#include "restore/file_content.h"

// Older C libraries lack these.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#define MFD_EXEC 0x0010U
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif

namespace reprise {
namespace {

timespec time_of(std::int64_t ns) {
  constexpr std::int64_t second = 1'000'000'000;
  const std::int64_t whole = ns / second - (ns % second < 0);
  return {whole, ns - whole * second};
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "/" : path.substr(0, std::max<std::size_t>(slash, 1));
}

}  // namespace

NamelessFiles::NamelessFiles(Session& session, const Process& image, const RestoreOptions& options, RestoreMode mode,
                           BlobReader read)
    : session_(session), image_(image), options_(options), mode_(mode), read_(std::move(read)),
      behalf_(OnBehalf::of(session.pid(), image, options, mode)) {}

bool NamelessFiles::is_it(int fd, std::uint32_t number) const {
  struct stat now {};
  if (::fstat(fd, &now) != 0 || !S_ISREG(now.st_mode) || now.st_nlink > 0) return false;
  // On stacked file systems st_dev of a descriptor may differ from the device of a mapping of the same file.
  for (const Description& one : image_.descriptions())
    if (one.shared_object() == number && one.file().ino() == now.st_ino && one.file().dev() == now.st_dev) return true;
  for (const Mapping& one : image_.mappings())
    if (one.shared_object() == number && one.file().ino() == now.st_ino && one.file().dev() == now.st_dev) return true;
  return false;
}

UniqueFd NamelessFiles::find(std::uint32_t number) {
  if (mode_ == RestoreMode::restart) return {};
  const File& file = image_.shared_objects(static_cast<int>(number) - 1).file();
  for (const cr_fd& live : session_.fds()) {
    if (live.ino != file.ino() || !S_ISREG(live.mode)) continue;
    if (UniqueFd ours = session_.get_fd(live.fd); is_it(ours.get(), number)) return ours;
  }
  for (const cr_vma& vma : session_.vmas()) {
    if (!(vma.flags & CR_VMA_FILE) || vma.ino != file.ino()) continue;
    if (UniqueFd ours = session_.get_vma_file(vma.start); is_it(ours.get(), number)) return ours;
  }
  return {};
}

bool NamelessFiles::is_executed(std::uint32_t number) const {
  return std::any_of(image_.mappings().begin(), image_.mappings().end(), [&](const Mapping& mapping) {
    return mapping.shared_object() == number && (mapping.flags() & CR_VMA_EXEC);
  });
}

std::vector<NamelessFiles::Folder> NamelessFiles::folders(const File& file) const {
  const std::string was = folder_of(file.path());
  std::vector<Folder> all = {{mode_ == RestoreMode::restart ? options_.relocated(was) : was, false}};
  if (const char* own = std::getenv("TMPDIR"); own && *own == '/') all.push_back({own, true});
  all.push_back({"/tmp", true});
  return all;
}

template <class Make>
UniqueFd NamelessFiles::make_somewhere(const File& file, const char* kind, Make make) {
  std::string tried;
  int code = ENOENT;
  for (const Folder& folder : folders(file)) {
    const OnBehalf::Rights rights(behalf_);
    const UniqueFd there = behalf_.open(folder.path, O_PATH | O_DIRECTORY);
    if (there) {
      if (UniqueFd made = make(there.get())) {
        if (folder.other)
          notes_.push_back("deleted " + std::string(kind) + " " + file.path() + ": made again in " + folder.path);
        return made;
      }
    }
    code = errno;
    tried += (tried.empty() ? "" : "; ") + folder.path + ": " + error_text(code);
  }
  throw Error(code == ENOSPC ? Failure::temporary : Failure::refused, code,
              std::string(kind) + " " + file.path() +
                  ", which had been deleted before the checkpoint, cannot be made again (" + tried + "): make room, or name another folder in TMPDIR");
}

void NamelessFiles::fill(const SharedObject& object, int fd) {
  // A write beyond RLIMIT_FSIZE raises SIGXFSZ, whose default action ends the program.
  rlimit most;
  if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && object.size() > most.rlim_cur) fail_content(object, "making it", EFBIG);
  if (::ftruncate(fd, static_cast<off_t>(object.size())) != 0) fail_content(object, "setting its size", errno);
  constexpr std::uint64_t chunk = 1 << 20;
  const auto buffer = std::make_unique<char[]>(chunk);
  for (const auto& extent : object.extents()) {
    const std::uint64_t end = std::min(extent.offset() + extent.length(), object.size());
    for (std::uint64_t at = extent.offset(); at < end; at += chunk) {
      const std::uint64_t len = std::min(chunk, end - at);
      read_(extent.blob_offset() + (at - extent.offset()), buffer.get(), len);
      write_content(object, fd, at, buffer.get(), len);
    }
  }
}

UniqueFd NamelessFiles::make_memfd(const SharedObject& object) {
  const std::string& path = object.file().path();
  const std::string name = path.substr(path.find(':') + 1);
  // Give one of the two flags: the default depends on vm.memfd_noexec. Kernels before 6.3 reject both (EINVAL).
  const unsigned execute = object.seals() & F_SEAL_EXEC ? MFD_NOEXEC_SEAL : MFD_EXEC;
  const OnBehalf::Rights rights(behalf_);
  UniqueFd made(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | execute));
  if (!made && errno == EINVAL) made.reset(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made)
    throw Error(errno == ENOMEM ? Failure::temporary : Failure::refused, errno,
                path + " cannot be made again: " + error_text(errno));
  fill(object, made.get());
  return made;
}

int NamelessFiles::file(std::uint32_t number) {
  UniqueFd& ours = files_[number];
  if (ours || (ours = find(number))) return ours.get();
  const SharedObject& object = image_.shared_objects(static_cast<int>(number) - 1);
  if (is_kept_memory(object)) {
    if (mode_ == RestoreMode::restart && (ours = given_memory(object, options_))) {
      if (options_.fill_memory.count(std::string(kept_name(object.file().path())))) {
        punch_since(object, ours.get(), {{0, object.size()}});
        fill(object, ours.get());
      }
      return ours.get();
    }
    if (mode_ == RestoreMode::pause)
      notes_.push_back(kept_text(object) + " was freed since the checkpoint: it is " +
                       (is_copied(object) ? "as at the checkpoint" : "empty"));
  }
  if (is_memfd(object)) {
    ours = make_memfd(object);
    made_.insert(number);
    return ours.get();
  }
  ours = make_somewhere(object.file(), "file", [&](int folder) {
    UniqueFd made = make_nameless_file(folder);
    struct statvfs where {};
    if (made && is_executed(number) && ::fstatvfs(made.get(), &where) == 0 && (where.f_flag & ST_NOEXEC)) {
      errno = EACCES;
      return UniqueFd();
    }
    if (!made) return made;
    try {
      fill(object, made.get());
    } catch (const Error& error) {
      // The file system is full or limits file sizes: try the next directory.
      if (error.code() != ENOSPC && error.code() != EDQUOT && error.code() != EFBIG && error.code() != EIO) throw;
      errno = error.code();
      return UniqueFd();
    }
    return made;
  });
  made_.insert(number);
  return ours.get();
}

UniqueFd NamelessFiles::open(std::uint32_t number, int flags) { return behalf_.reopen(file(number), flags); }

int NamelessFiles::folder(const File& file) {
  UniqueFd& ours = folders_[{file.dev(), file.ino()}];
  if (!ours) ours = make_somewhere(file, "directory", [](int folder) { return make_nameless_folder(folder); });
  return ours.get();
}

UniqueFd NamelessFiles::fifo(const File& file) {
  return make_somewhere(file, "FIFO", [](int folder) { return make_nameless_fifo(folder); });
}

void NamelessFiles::finish_one(const SharedObject& object, int fd, Report& report) {
  const bool memfd = is_memfd(object);
  const std::string who = (memfd ? "memfd " : "deleted file ") + object.file().path() + ": ";
  const Deleted& was = object.deleted();
  const OnBehalf::Rights rights(behalf_);
  struct stat now {};
  if (::fstat(fd, &now) != 0) fail_content(object, "looking at it", errno);
  for (const auto& attribute : was.attributes())
    if (::fsetxattr(fd, attribute.name().c_str(), attribute.value().data(), attribute.value().size(), 0) != 0)
      report.warnings.push_back(who + "its attribute " + attribute.name() + " is not given again: " + error_text(errno));
  // Never set-user-ID or set-group-ID: the content comes from an image, which is not trusted.
  const mode_t wanted = object.file().mode() & 01777;
  if (object.file().mode() & 06000) report.warnings.push_back(who + "it is not set-user-ID or set-group-ID any more");
  if ((now.st_mode & 07777) != wanted && ::fchmod(fd, wanted) != 0)
    report.warnings.push_back(who + "its mode stays as it is: " + error_text(errno));
  if (memfd) return;
  const timespec times[2] = {time_of(was.atime_ns()), time_of(object.file().mtime_ns())};
  if (::futimens(fd, times) != 0) report.warnings.push_back(who + "its times stay as they are: " + error_text(errno));
  // Last, because only the owner may change the rest.
  if ((now.st_uid != was.uid() || now.st_gid != was.gid()) && ::fchown(fd, was.uid(), was.gid()) != 0)
    report.warnings.push_back(who + "it belongs to user " + std::to_string(now.st_uid) + " and group " +
                              std::to_string(now.st_gid) + " now: " + error_text(errno));
}

void NamelessFiles::finish(Report& report) {
  for (const std::uint32_t number : made_)
    finish_one(image_.shared_objects(static_cast<int>(number) - 1), files_.at(number).get(), report);
  report.warnings.insert(report.warnings.end(), notes_.begin(), notes_.end());
}

}  // namespace reprise
