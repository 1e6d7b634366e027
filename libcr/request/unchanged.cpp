// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/unchanged.h"

#include "descriptors/descriptors.h"
#include "process/sharing.h"
#include "restore/kept_memory.h"

namespace reprise {

void collect_digests(Session& session, Process& process) {
  const cr_digest digest = session.digest();
  process.mutable_digests()->Assign(std::begin(digest.area), std::end(digest.area));
}

bool has_shared_content(const Process& image, bool own_channel, SharedMemory keep) {
  int channels = 0;
  for (const SharedObject& object : image.shared_objects()) {
    if (is_kept_memory(object) || (own_channel && is_channel(object) && ++channels == 1)) continue;
    if (keep != SharedMemory::keep || !object.mapped_elsewhere()) return true;
  }
  return false;
}

Unchanged compare_digests(Session& session, const Process& image, bool own_channel, SharedMemory keep) {
  if (image.digests_size() < CR_AREAS) return {};
  const cr_digest now = session.digest();
  const auto same = [&](cr_area area) { return now.area[area] != 0 && now.area[area] == image.digests(area); };
  // Mappings and memfds have the content.
  const bool content = same(CR_AREA_CONTENT);
  const bool shared = has_shared_content(image, own_channel, keep);
  return {.mappings = !shared && same(CR_AREA_MAPPINGS),
          .descriptors = !shared && same(CR_AREA_DESCRIPTORS) && may_be_unchanged(image, content),
          .process = same(CR_AREA_PROCESS),
          .threads = same(CR_AREA_THREADS),
          .content = content};
}

}  // namespace reprise
