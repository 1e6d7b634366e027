// SPDX-License-Identifier: LGPL-2.1-or-later
//
// memfds. Their content is a shared object of the image, whether mapped or not.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "descriptors/kinds.h"

namespace reprise {
namespace {

/** 1 + index of the object that shows this file, which mappings may have registered already. */
std::uint32_t object_of(Process& image, const File& file) {
  for (int i = 0; i < image.shared_objects_size(); ++i) {
    const SharedObject& object = image.shared_objects(i);
    if (object.kind() == SharedObject::MEMFD && object.file().ino() == file.ino() && object.file().dev() == file.dev())
      return static_cast<std::uint32_t>(i) + 1;
  }
  SharedObject& object = *image.add_shared_objects();
  object.set_kind(SharedObject::MEMFD);
  *object.mutable_file() = file;
  object.set_size(file.size());
  return static_cast<std::uint32_t>(image.shared_objects_size());
}

/** Some way to the memory: another descriptor of it, or a mapping. */
UniqueFd find_memory(Restorer& restorer, std::uint32_t index) {
  const std::uint32_t object = restorer.description(index).shared_object();
  for (std::uint32_t other = 0; other < restorer.decisions.size(); ++other) {
    if (other == index || restorer.description(other).kind() != Description::MEMFD ||
        restorer.description(other).shared_object() != object)
      continue;
    if (const int fd = restorer.fd(other); fd >= 0) return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  for (const Mapping& mapping : restorer.image.mappings())
    if (mapping.shared_object() == object) return restorer.source.get_mapping(mapping.start());
  return {};
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
  const Description& description = restorer.description(index);
  const SharedObject& object = restorer.image.shared_objects(static_cast<int>(description.shared_object()) - 1);
  UniqueFd memory = find_memory(restorer, index);
  if (!memory) {
    const std::string& path = object.file().path();
    const std::string name = path.substr(path.find(':') + 1);
    // Its seals are put on when its content is back.
    memory.reset(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!memory || ::ftruncate(memory.get(), static_cast<off_t>(object.size())) != 0)
      restorer.fail(index, "its memory cannot be made", errno);
  }
  UniqueFd fd = reopen_fd(memory.get(), open_flags(description));
  if (!fd) restorer.fail(index, "cannot be opened again", errno);
  restorer.made[index] = std::move(fd);
}

}  // namespace reprise
