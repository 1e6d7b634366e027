// SPDX-License-Identifier: LGPL-2.1-or-later
#include "restore/kept_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/kept_make.h"
#include "base/proc_dir.h"
#include "base/text.h"
#include "cr.h"

namespace reprise {
namespace {

/** Had the image's process mapped shared object @p number (1 + index) so that it could write it? */
bool was_written(const Process& image, std::uint32_t number) {
  constexpr std::uint64_t written = CR_VMA_SHARED | CR_VMA_MAYWRITE;
  return std::any_of(image.mappings().begin(), image.mappings().end(), [&](const Mapping& mapping) {
    return mapping.shared_object() == number && (mapping.flags() & written) == written;
  });
}

/** @return 1 + index of the kept memory @p name. Throws Error (usage) if the image has none, or several. */
std::uint32_t number_of(const Process& image, const std::string& name) {
  std::uint32_t number = 0;
  std::string others;
  for (int i = 0; i < image.shared_objects_size(); ++i) {
    const SharedObject& object = image.shared_objects(i);
    if (!is_kept_memory(object)) continue;
    const std::string_view has = kept_name(object.file().path());
    if (has != name) {
      others += (others.empty() ? "" : ", ") + std::string(has);
    } else if (number) {
      throw Error(Failure::usage, EINVAL,
                  "the image has two kept memories named " + name + ": give none, and both come back new");
    } else {
      number = static_cast<std::uint32_t>(i) + 1;
    }
  }
  if (!number)
    throw Error(Failure::usage, ENOENT,
                "the image has no kept memory named " + name + (others.empty() ? "" : "; it has " + others));
  return number;
}

/** @return why @p fd cannot take the place of shared object @p number; "" if it can */
std::string problem(const Process& image, std::uint32_t number, int fd) {
  const SharedObject& object = image.shared_objects(static_cast<int>(number) - 1);
  struct stat st {};
  if (::fstat(fd, &st) != 0) return error_text(errno);
  const int seals = ::fcntl(fd, F_GET_SEALS);
  const std::string path = ProcDir("/proc/self/fd").link(std::to_string(fd));
  if (seals < 0 || path != object.file().path() + std::string(kKeptEnd))
    return "it is " + path + " instead of a memfd named " + object.file().path().substr(std::string_view("/memfd:").size());
  if (static_cast<std::uint64_t>(st.st_size) != object.size())
    return "it has " + std::to_string(st.st_size) + " bytes instead of " + std::to_string(object.size());
  if ((seals & kNotWritableSeals) && was_written(image, number)) return "it is sealed against writing";
  return {};
}

}  // namespace

std::string kept_text(const SharedObject& object) { return "kept memory " + std::string(kept_name(object.file().path())); }

void check_kept_memory(const Process& image, const RestoreOptions& options) {
  for (const std::string& name : options.fill_memory) {
    if (!options.kept_memory.count(name))
      throw Error(Failure::usage, EINVAL, "kept memory " + name + " is to be filled, and is not given");
    if (!is_copied(image.shared_objects(static_cast<int>(number_of(image, name)) - 1)))
      throw Error(Failure::usage, EINVAL,
                  "the image does not have the content of kept memory " + name + ": it was allocated without CR_KEPT_COPIED");
  }
  for (const auto& [name, fd] : options.kept_memory)
    if (const std::string why = problem(image, number_of(image, name), fd); !why.empty())
      throw Error(Failure::refused, EINVAL,
                  "descriptor " + std::to_string(fd) + " cannot be kept memory " + name + ": " + why +
                      ": give another one, or none, and it comes back new");
}

UniqueFd given_memory(const SharedObject& object, const RestoreOptions& options) {
  const auto given = options.kept_memory.find(std::string(kept_name(object.file().path())));
  if (given == options.kept_memory.end()) return {};
  UniqueFd ours(::fcntl(given->second, F_DUPFD_CLOEXEC, 0));
  if (!ours) throw Error(Failure::temporary, errno, kept_text(object) + ": " + error_text(errno));
  return ours;
}

}  // namespace reprise
