// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/unchanged.h"

#include "descriptors/descriptors.h"

namespace reprise {

void collect_digests(Session& session, Process& process) {
  const cr_digest digest = session.digest();
  process.mutable_digests()->Assign(std::begin(digest.area), std::end(digest.area));
}

Unchanged compare_digests(Session& session, const Process& image) {
  if (image.digests_size() < CR_AREAS) return {};
  const cr_digest now = session.digest();
  const auto same = [&](cr_area area) { return now.area[area] != 0 && now.area[area] == image.digests(area); };
  // No digest covers the content of shared memory, which belongs to mappings and memfds.
  const bool shared = image.shared_objects_size() > 0;
  return {.mappings = !shared && same(CR_AREA_MAPPINGS),
          .descriptors = !shared && same(CR_AREA_DESCRIPTORS) && may_be_unchanged(image),
          .process = same(CR_AREA_PROCESS),
          .threads = same(CR_AREA_THREADS)};
}

}  // namespace reprise
