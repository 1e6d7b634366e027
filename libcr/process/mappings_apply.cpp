// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cerrno>

#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/text.h"
#include "process/mappings.h"
#include "session/checked_batch.h"

namespace reprise {
namespace {

constexpr int kDroppable = 0x08;  // MAP_DROPPABLE, replaces MAP_PRIVATE; newer than some C libraries' headers
constexpr long kMseal = 462;  // SYS_mseal, newer than some kernels' headers

int map_flags(const Mapping& mapping) {
  const std::uint64_t flags = mapping.flags();
  int result = MAP_FIXED_NOREPLACE;
  result |= flags & CR_VMA_SHARED ? MAP_SHARED : flags & CR_VMA_DROPPABLE ? kDroppable : MAP_PRIVATE;
  if (!mapping.has_file()) result |= MAP_ANONYMOUS;
  if (flags & CR_VMA_GROWSDOWN) result |= MAP_GROWSDOWN;
  if (flags & CR_VMA_NORESERVE) result |= MAP_NORESERVE;
  return result;
}

/**
 * Allocate the protection keys that the image's process had allocated or that its mappings have. pkey_alloc() takes no
 * number, so allocate all that are free and free the surplus. Access rights are in the threads' PKRU registers.
 */
void allocate_pkeys(Session& session, Remote& remote, const Process& image) {
  std::uint32_t wanted = image.env().pkeys() & ~1U;  // key 0 is the default and always allocated
  for (const Mapping& mapping : image.mappings())
    if (own_pkey(mapping)) wanted |= 1U << (mapping.pkey() & 31);
  const std::uint32_t live = session.process().pkeys & ~1U;
  if (live == wanted || (!image.env().pkeys() && !wanted)) return;
  if (image.env().pkeys())
    for (std::uint64_t key = 1; key < 16; ++key)
      if (live & ~wanted & (1U << key)) remote.call(0, SYS_pkey_free, key);
  std::vector<std::int64_t> surplus;
  for (;;) {
    const std::int64_t key = remote.call(0, SYS_pkey_alloc, 0, 0);
    if (key < 0) break;
    if (!(wanted & (1U << (key & 31)))) surplus.push_back(key);
  }
  for (const std::int64_t key : surplus) remote.call(0, SYS_pkey_free, static_cast<std::uint64_t>(key));
}

void move_special(CheckedBatch& batch, const MappingPlan& plan, std::uint64_t gap) {
  // Move through the gap: old and new places may overlap each other in any way.
  constexpr std::uint64_t how = MREMAP_MAYMOVE | MREMAP_FIXED;
  const auto name = [] { return std::string("moving the vdso"); };
  std::uint64_t at = gap;
  for (const MappingPlan::Move& step : plan.moves) {
    batch.must({SYS_mremap, {step.from, step.size, step.size, how, at}}, name);
    at += step.size;
  }
  at = gap;
  for (const MappingPlan::Move& step : plan.moves) {
    batch.must({SYS_mremap, {at, step.size, step.size, how, step.to}}, name);
    at += step.size;
  }
}

}  // namespace

void MappingFiles::apply(Session& session, Remote& remote, const MappingPlan& plan, const Process& image,
                         std::uint64_t gap, Report& report) {
  allocate_pkeys(session, remote, image);
  if (plan.empty()) return;
  CheckedBatch batch(remote, 0, &report.warnings);
  for (const MappingPlan::Range& step : plan.removes)
    batch.must({SYS_munmap, {step.start, step.end - step.start}, step.end - step.start},
               [start = step.start] { return "unmapping " + hex(start); });
  move_special(batch, plan, gap);
  // Protect existing parts before new ones are mapped next to them: Linux 6.1 merges a new mapping with its neighbour,
  // but does not merge a mapping whose protection changes with a neighbour that was never touched.
  for (const MappingPlan::Protect& step : plan.protects) {
    const Mapping& mapping = image.mappings(step.mapping);
    const std::uint64_t prot = static_cast<std::uint64_t>(protection(mapping.flags()));
    const std::uint64_t size = step.end - step.start;
    // A plain mprotect would keep a protection key that the mapping got since the checkpoint.
    batch.must(own_pkey(mapping) || step.key
                   ? Remote::Call{SYS_pkey_mprotect, {step.start, size, prot, mapping.pkey()}, size}
                   : Remote::Call{SYS_mprotect, {step.start, size, prot}, size},
               [&mapping] { return mapping_name(mapping) + ", protection"; });
  }
  batch.run();

  // Install all files first: installing makes remote calls, which would split the batch of mappings.
  for (const MappingPlan::Map& step : plan.maps)
    if (const Mapping& mapping = image.mappings(step.mapping); mapping.has_file())
      target_fd(session, remote, mapping, image, gap);
  for (const MappingPlan::Map& step : plan.maps) {
    const Mapping& mapping = image.mappings(step.mapping);
    std::uint64_t fd = static_cast<std::uint64_t>(-1), offset = 0;
    if (mapping.has_file()) {
      fd = static_cast<std::uint64_t>(target_fd(session, remote, mapping, image, gap));
      offset = mapping.offset() + (step.start - mapping.start());
    }
    batch.must({SYS_mmap, {step.start, step.end - step.start, static_cast<std::uint64_t>(protection(mapping.flags())),
                           static_cast<std::uint64_t>(map_flags(mapping)), fd, offset}},
               [&mapping] { return "mapping " + mapping_name(mapping).substr(8); });
    if (own_pkey(mapping))
      batch.must({SYS_pkey_mprotect, {step.start, step.end - step.start,
                                      static_cast<std::uint64_t>(protection(mapping.flags())), mapping.pkey()}},
                 [&mapping] { return mapping_name(mapping) + ", protection key"; });
  }
  // Failures from here on do not change the program's memory content: they are warnings.
  for (const MappingPlan::Advise& step : plan.advices)
    batch.may({SYS_madvise, {step.start, step.end - step.start, static_cast<std::uint64_t>(step.advice)},
               step.end - step.start},
              [start = step.start] { return "madvise of mapping " + hex(start) + " not repeated"; });
  for (const MappingPlan::Map& step : plan.maps)
    if (image.mappings(step.mapping).flags() & CR_VMA_SEALED)
      batch.may({kMseal, {step.start, step.end - step.start, 0}},
                [start = step.start] { return "mapping " + hex(start) + " is no longer sealed"; });
  for (auto& [key, entry] : files_) {
    if (entry.target_fd < 0) continue;
    batch.may({SYS_close, {static_cast<std::uint64_t>(entry.target_fd)}}, [] { return std::string("close"); });
    entry.target_fd = -1;
  }
  batch.run();
  report.mappings_changed = plan.steps();
}

}  // namespace reprise
