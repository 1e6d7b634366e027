// SPDX-License-Identifier: LGPL-2.1-or-later
//
// memfds. Their content is a shared object of the image, whether they are mapped or not; that of kept memory is saved
// only if it was allocated so.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/text.h"
#include "descriptors/kinds.h"
#include "restore/kept_memory.h"
#include "restore/nameless_files.h"

namespace reprise {
namespace {

/** @return 1 + index of the shared object for @p file; adds one unless mappings already have */
std::uint32_t object_of(Process& image, const File& file) {
  for (int i = 0; i < image.shared_objects_size(); ++i) {
    const SharedObject& object = image.shared_objects(i);
    if (is_memfd(object) && object.file().ino() == file.ino() && object.file().dev() == file.dev())
      return static_cast<std::uint32_t>(i) + 1;
  }
  SharedObject& object = *image.add_shared_objects();
  object.set_kind(memfd_kind(file.path()));
  *object.mutable_file() = file;
  object.set_size(file.size());
  return static_cast<std::uint32_t>(image.shared_objects_size());
}

}  // namespace

void collect_memfd(Collector& collector, const cr_fd& fd, Description& description) {
  const UniqueFd memory = collector.source.get(fd.fd);
  struct statfs where;
  if (::fstatfs(memory.get(), &where) == 0 && where.f_type == HUGETLBFS_MAGIC) {
    collector.refuse(fd.fd, "a memfd of huge pages");
    return;
  }
  const std::uint32_t object = object_of(collector.image, description.file());
  description.set_shared_object(object);
  if (const int seals = ::fcntl(memory.get(), F_GET_SEALS); seals > 0)
    collector.image.mutable_shared_objects(static_cast<int>(object) - 1)->set_seals(static_cast<std::uint32_t>(seals));
}

void make_memfd(Restorer& restorer, std::uint32_t index) {
  if (!restorer.nameless) restorer.fail(index, "was not made", EBADF);
  const Description& description = restorer.description(index);
  UniqueFd fd = restorer.nameless->open(description.shared_object(), open_flags(description));
  if (!fd) restorer.fail(index, "cannot be opened again", errno);
  restorer.made[index] = std::move(fd);
}

void restore_memfd_state(Restorer& restorer, std::uint32_t index) {
  struct ::stat now;
  const mode_t mode = restorer.description(index).file().mode() & 01777;
  if (!restorer.stat(index, now) || (now.st_mode & 01777) == mode) return;
  const OnBehalf::Rights rights(restorer.behalf);
  if (::fchmod(restorer.must_fd(index), mode) != 0) restorer.warn(index, "its mode stays as it is: " + error_text(errno));
}

}  // namespace reprise
