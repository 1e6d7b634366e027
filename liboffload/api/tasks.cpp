// SPDX-License-Identifier: LGPL-2.1-or-later
// croff_task(), croff_taskwait().
#include <cstring>

#include "library.h"

namespace croff {
namespace {

Region checked(const croff_region &region, int index) {
  const std::string name = "croff_task: region " + std::to_string(index);
  if (region.bytes && !region.data)
    throw Error(Code::argument, name + " has " + std::to_string(region.bytes) + " bytes at NULL: pass its memory");
  if (region.access != CROFF_IN && region.access != CROFF_OUT && region.access != CROFF_INOUT)
    throw Error(Code::argument, name + " has the access " + std::to_string(region.access) +
                                    ": it is CROFF_IN, CROFF_OUT or CROFF_INOUT");
  return {reinterpret_cast<std::uintptr_t>(region.data), region.bytes, region.access != CROFF_OUT, region.access != CROFF_IN};
}

void submit(MPI_Comm inter, int rank, int recover, croff_function function, const void *values, size_t bytes,
            const croff_region *regions, int count) {
  Task task;
  task.group = scheduler().find(inter);
  const int size = scheduler().group(task.group).size();
  if (rank < 0 || rank >= size)
    throw Error(Code::argument, "croff_task: booster " + std::to_string(rank) + " of " + std::to_string(size) +
                                    ": they are numbered from 0");
  if (recover < CROFF_NO_RECOVER)
    throw Error(Code::argument, "croff_task: recover is " + std::to_string(recover) +
                                    ": it is CROFF_NO_RECOVER, CROFF_RECOVER or the number of a domain, from 0");
  if (count < 0 || (count && !regions))
    throw Error(Code::argument, "croff_task: " + std::to_string(count) + " regions at NULL or fewer than 0: pass an array");
  if (bytes && !values)
    throw Error(Code::argument, "croff_task: " + std::to_string(bytes) + " bytes of values at NULL: pass their address");
  task.booster = rank;
  task.recover = recover != CROFF_NO_RECOVER;
  task.code = refer(reinterpret_cast<const void *>(function));
  task.values.resize(bytes);
  if (bytes) memcpy(task.values.data(), values, bytes);
  for (int i = 0; i < count; ++i) task.regions.push_back(checked(regions[i], i));
  scheduler().submit(std::move(task), recover >= 0 ? std::optional(recover) : std::nullopt);
}

}  // namespace
}  // namespace croff

int croff_task(MPI_Comm inter, int rank, int recover, croff_function function, const void *values, size_t bytes,
               const croff_region *regions, int count) {
  return croff::guarded([&] { croff::submit(inter, rank, recover, function, values, bytes, regions, count); });
}

int croff_taskwait(void) {
  return croff::guarded([] { croff::scheduler().wait(); });
}

void croff_count(croff_counts *counts) {
  if (!counts) return;
  *counts = {};
  croff::guarded([&] {
    const croff::Counts &c = croff::scheduler().counts();
    *counts = {c.tasks, c.executions, c.replacements, c.merges, c.staged};
  });
}
