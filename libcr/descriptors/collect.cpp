// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/stat.h>

#include "base/error.h"
#include "descriptors/classify.h"
#include "descriptors/descriptors.h"
#include "descriptors/fdinfo.h"
#include "descriptors/kinds.h"
#include "restore/file_identity.h"

namespace reprise {

Collector::Collector(Source& source, Process& image, std::vector<cr_fd> fds, bool save_deleted)
    : source(source), image(image), fds(std::move(fds)), save_deleted(save_deleted),
      behalf(OnBehalf::of_process(source.pid())), fd_dir_(source.pid(), "fd"), fdinfo_(source.pid(), "fdinfo"),
      paths_(source.pid()) {}

void Collector::refuse(int fd, const std::string& what) {
  refusals_.add("descriptor " + std::to_string(fd) + ": " + what, false);
}

void Collector::run() {
  std::map<int, std::uint32_t> index_of;  // lowest number -> description
  for (const cr_fd& fd : fds) {
    auto [found, fresh] = index_of.emplace(fd.same_as, 0);
    if (fresh) {
      found->second = static_cast<std::uint32_t>(image.descriptions_size());
      number_[found->second] = fd.fd;
      image.add_descriptions();
      one(fd, found->second);
    }
    Descriptor& descriptor = *image.add_descriptors();
    descriptor.set_fd(fd.fd);
    descriptor.set_description(found->second);
    descriptor.set_cloexec((fd.flags & CR_FD_CLOEXEC) != 0);
    if (fd.flags & CR_FD_CR) image.set_has_agent(true);
  }
  finish_deleted(*this);
  finish_pipes(*this, number_);
  finish_timerfds(*this, number_);
  finish_epolls(*this, number_);
  finish_unix_pairs(*this, number_);
  locks();
  refusals_.raise("process " + std::to_string(source.pid()) + " holds what cannot be saved");
}

void Collector::one(const cr_fd& fd, std::uint32_t index) {
  Description& description = *image.mutable_descriptions(static_cast<int>(index));
  description.set_flags(fd.f_flags);
  description.set_offset(static_cast<std::int64_t>(fd.pos));
  description.set_serial(fd.serial);
  description.set_outside(fd.refs > fd.refs_here);

  const std::string shown = link(fd.fd);
  struct ::stat status = {};
  if (!stat(fd.fd, status)) status.st_mode = fd.mode;
  const Classified what = classify(shown, status.st_mode, status.st_rdev, fd.f_flags, (fd.flags & CR_FD_CR) != 0);
  if (!what.refusal.empty()) {
    refuse(fd.fd, what.refusal);
    return;
  }
  description.set_kind(what.kind);
  if (!shown.empty() && shown.front() == '/') fill_file(*description.mutable_file(), shown, status, paths_);
  if (description.file().deleted() && what.kind != Description::MEMFD) collect_deleted(*this, fd, description, status);
  // A descriptor opened with O_PATH has no state. Save the content of a memfd even so: it has no path to find it by.
  if (fd.f_flags & O_PATH) {
    if (what.kind == Description::MEMFD) collect_memfd(*this, fd, description);
    return;
  }
  description.set_owner_pid(fd.owner_pid);
  description.set_owner_signal(static_cast<std::int32_t>(fd.owner_signal));
  if (const auto collect = kind_ops(what.kind).collect) collect(*this, fd, description);
}

void Collector::locks() {
  // Read fdinfo instead of /proc/locks, which waits for an RCU grace period (about ten milliseconds).
  for (const auto& [index, number] : number_) {
    Description& description = *image.mutable_descriptions(static_cast<int>(index));
    if (!description.has_file()) continue;
    bool lease = false;
    for (const Lock& lock : parse_locks(fdinfo(number), &lease)) *description.add_locks() = lock;
    if (lease) refuse(number, "holds a lease on " + description.file().path());
  }
}

void collect_descriptors(Session& session, Process& process, bool save_deleted) {
  SessionSource source(session);
  Collector(source, process, session.fds(), save_deleted).run();
}

}  // namespace reprise
