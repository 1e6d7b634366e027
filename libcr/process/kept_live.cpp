// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/kept_live.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/error.h"
#include "base/proc_dir.h"
#include "process/maps.h"
#include "restore/kept_memory.h"

namespace reprise {
namespace {

/** Kept memory that the target has. */
struct Live {
  std::string path;  // as in an image
  std::uint64_t dev, ino, size;
};

bool is_it(const File& file, std::uint64_t dev, std::uint64_t ino) { return file.dev() == dev && file.ino() == ino; }

/** Add the memory behind our descriptor @p fd, which /proc shows as @p link, if it is kept memory. */
void add(std::vector<Live>& all, std::string link, int fd) {
  struct stat st {};
  if (!link.ends_with(kKeptEnd) || kept_name(link).empty() || ::fstat(fd, &st) != 0) return;
  link.resize(link.size() - kKeptEnd.size());
  all.push_back({std::move(link), st.st_dev, st.st_ino, static_cast<std::uint64_t>(st.st_size)});
}

/** @return the kept memory that the target has mapped or, behind that, open */
std::vector<Live> find_live(Session& session, std::span<const cr_vma> now) {
  std::vector<Live> all;
  MapNames names(session.pid());
  for (const cr_vma& vma : now) {
    if ((vma.flags & (CR_VMA_FILE | CR_VMA_SHMEM)) != (CR_VMA_FILE | CR_VMA_SHMEM)) continue;
    const std::string name = unescape_path(names.at(vma.start));
    if (!kept_name(name).empty()) add(all, name, session.get_vma_file(vma.start).get());
  }
  const ProcDir links("/proc/self/fd");
  for (const cr_fd& fd : session.fds()) {
    if (fd.same_as != fd.fd || !S_ISREG(fd.mode)) continue;
    const UniqueFd ours = session.get_fd(fd.fd);
    add(all, links.link(std::to_string(ours.get())), ours.get());
  }
  return all;
}

bool is_mapped(std::span<const cr_vma> now, const File& file) {
  return std::any_of(now.begin(), now.end(), [&](const cr_vma& vma) {
    return (vma.flags & CR_VMA_FILE) && is_it(file, gnu_dev_makedev(vma.dev_major, vma.dev_minor), vma.ino);
  });
}

/** Does @p image have this memory under its inode? */
bool is_known(const Process& image, const Live& live) {
  return std::any_of(image.shared_objects().begin(), image.shared_objects().end(),
                     [&](const SharedObject& object) { return is_it(object.file(), live.dev, live.ino); });
}

/** Give shared object @p index and all that refers to it the inode of @p live. */
void become(Process& image, int index, const Live& live) {
  const auto set = [&](File& file) { file.set_dev(live.dev), file.set_ino(live.ino); };
  const auto number = static_cast<std::uint32_t>(index) + 1;
  set(*image.mutable_shared_objects(index)->mutable_file());
  for (Mapping& mapping : *image.mutable_mappings())
    if (mapping.shared_object() == number) set(*mapping.mutable_file());
  for (Description& description : *image.mutable_descriptions())
    if (description.shared_object() == number) set(*description.mutable_file());
}

}  // namespace

void adopt_kept_memory(Session& session, std::span<const cr_vma> now, Process& image) {
  std::vector<int> missing;
  for (int i = 0; i < image.shared_objects_size(); ++i)
    if (is_kept_memory(image.shared_objects(i)) && !is_mapped(now, image.shared_objects(i).file())) missing.push_back(i);
  if (missing.empty()) return;
  const std::vector<Live> all = find_live(session, now);
  for (const int index : missing) {
    const SharedObject& object = image.shared_objects(index);
    const auto open = [&](const Live& live) { return is_it(object.file(), live.dev, live.ino); };
    if (std::any_of(all.begin(), all.end(), open)) continue;
    const auto same = std::find_if(all.begin(), all.end(), [&](const Live& live) {
      return live.path == object.file().path() && !is_known(image, live);
    });
    if (same == all.end()) continue;
    if (same->size != object.size())
      throw Error(Failure::refused, EEXIST,
                  kept_text(object) + " has " + std::to_string(same->size) + " bytes now, and had " +
                      std::to_string(object.size()) + " at the checkpoint: free it first, or restart the image");
    become(image, index, *same);
  }
}

}  // namespace reprise
