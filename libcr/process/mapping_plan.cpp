// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/mapping_plan.h"

#include <algorithm>

#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "base/error.h"
#include "base/text.h"

namespace reprise {
namespace {

constexpr std::uint64_t kTop = 0x7ffffffff000;
constexpr std::uint64_t kBottom = 0x100000;
constexpr std::uint64_t kProtection = CR_VMA_READ | CR_VMA_WRITE | CR_VMA_EXEC;
constexpr std::uint64_t kLock = CR_VMA_LOCKED | CR_VMA_LOCKONFAULT;
// Set when a mapping is made, and fixed afterwards.
constexpr std::uint64_t kNature = CR_VMA_SHARED | CR_VMA_GROWSDOWN | CR_VMA_NORESERVE | CR_VMA_FILE | CR_VMA_SHMEM |
                                  CR_VMA_SPECIAL | CR_VMA_HUGETLB | CR_VMA_UFFD | CR_VMA_DEVICE | CR_VMA_DROPPABLE;
// The kernel sets these on droppable memory (MAP_DROPPABLE) by itself.
constexpr std::uint64_t kDroppable = CR_VMA_WIPEONFORK | CR_VMA_DONTDUMP;

struct Advice {
  std::uint64_t flag;
  int on, off;
};
constexpr Advice kAdvice[] = {
    {CR_VMA_MERGEABLE, MADV_MERGEABLE, MADV_UNMERGEABLE},
    {CR_VMA_DONTFORK, MADV_DONTFORK, MADV_DOFORK},
    {CR_VMA_WIPEONFORK, MADV_WIPEONFORK, MADV_KEEPONFORK},
    {CR_VMA_DONTDUMP, MADV_DONTDUMP, MADV_DODUMP},
};
constexpr std::uint64_t kHuge = CR_VMA_HUGEPAGE | CR_VMA_NOHUGEPAGE;
constexpr std::uint64_t kReadAhead = CR_VMA_SEQ_READ | CR_VMA_RAND_READ;

/** Add the advice for THP and for read-ahead if @p was and @p flags differ in it: one value each. */
void add_single_advice(std::vector<MappingPlan::Advise>& out, std::uint64_t start, std::uint64_t end,
                       std::uint64_t was, std::uint64_t flags) {
  if ((was ^ flags) & kHuge) {
    if (flags & CR_VMA_HUGEPAGE) out.push_back({start, end, MADV_HUGEPAGE});
    if (flags & CR_VMA_NOHUGEPAGE) out.push_back({start, end, MADV_NOHUGEPAGE});
  }
  if ((was ^ flags) & kReadAhead) {
    const int advice = flags & CR_VMA_SEQ_READ ? MADV_SEQUENTIAL : flags & CR_VMA_RAND_READ ? MADV_RANDOM : MADV_NORMAL;
    out.push_back({start, end, advice});
  }
}

void add_advice(std::vector<MappingPlan::Advise>& out, std::uint64_t start, std::uint64_t end, std::uint64_t was,
                std::uint64_t flags) {
  add_single_advice(out, start, end, was, flags);
  for (const Advice& advice : kAdvice)
    if ((was ^ flags) & advice.flag) out.push_back({start, end, flags & advice.flag ? advice.on : advice.off});
}

bool same_backing(const cr_vma& now, const Mapping& image, std::uint64_t at) {
  if ((now.flags ^ image.flags()) & kNature) return false;
  if (now.flags & CR_VMA_SPECIAL) return now.start == image.start() && now.end == image.end();
  if (now.flags & CR_VMA_FILE) {
    const File& file = image.file();
    if (file.dev() != gnu_dev_makedev(now.dev_major, now.dev_minor) || file.ino() != now.ino) return false;
    if (now.offset + (at - now.start) != image.offset() + (at - image.start())) return false;
    // VM_MAYWRITE depends on the access mode of the file that was mapped.
    if ((now.flags & CR_VMA_SHARED) && ((now.flags ^ image.flags()) & CR_VMA_MAYWRITE)) return false;
  }
  // No advice clears both MADV_HUGEPAGE and MADV_NOHUGEPAGE: the mapping has to be made anew.
  if ((now.flags & kHuge) && !(image.flags() & kHuge)) return false;
  return true;
}

std::string where(const cr_vma& vma) { return "mapping " + hex(vma.start) + "-" + hex(vma.end); }

void refuse_changing(const cr_vma& vma) {
  if (vma.flags & CR_VMA_SEALED)
    throw Error(Failure::refused, EPERM,
                where(vma) + " has been sealed (mseal) and differs from the checkpoint: it cannot be restored");
}

/**
 * Find the anonymous mappings that have to be made anew as a whole although parts of them exist. The kernel merges only
 * VMAs that are alike, and a later mremap() of a range that consists of several VMAs would fail. New parts may not
 * merge with existing ones
 * - if a part was moved (mremap), because its vm_pgoff still is that of the old address;
 * - if there are several parts, because each may have its own anon_vma;
 * - if the mapping is read-only, because a part that was writable before has VM_ACCOUNT, which a new one lacks;
 * - if the new part lies between another mapping and the existing part: it could merge with that mapping instead.
 * @return for each mapping of the image whether it has to be made anew
 */
std::vector<bool> must_remap_whole(std::span<const cr_vma> now, const Process& image) {
  std::vector<bool> result(static_cast<std::size_t>(image.mappings_size()));
  std::size_t i = 0;
  for (int j = 0; j < image.mappings_size(); ++j) {
    const Mapping& mapping = image.mappings(j);
    while (i < now.size() && now[i].end <= mapping.start()) ++i;
    if (!(mapping.flags() & CR_VMA_PAGES) || mapping.has_file()) continue;
    bool moved = false, whole = false;
    int pieces = 0;
    for (std::size_t k = i; k < now.size() && now[k].start < mapping.end(); ++k) {
      moved |= !(now[k].flags & CR_VMA_FILE) && now[k].offset != now[k].start;
      ++pieces;
      whole |= now[k].start <= mapping.start() && now[k].end >= mapping.end();
    }
    const bool unlike = pieces == 1 && !(mapping.flags() & CR_VMA_WRITE);
    const bool astray = pieces == 1 && now[i].start > mapping.start() && j > 0 &&
                        image.mappings(j - 1).end() == mapping.start();
    result[static_cast<std::size_t>(j)] = (moved || pieces > 1 || unlike || astray) && !whole;
  }
  return result;
}

template <class Step>
void extend(std::vector<Step>& steps, const Step& step, bool same) {
  if (same && !steps.empty() && steps.back().end == step.start)
    steps.back().end = step.end;
  else
    steps.push_back(step);
}

/** Match the vdso and its data in order: one kernel maps them with the same sizes in every process. */
void plan_special(std::span<const cr_vma> now, const Process& image, MappingPlan& plan) {
  std::vector<const cr_vma*> have;
  std::vector<const Mapping*> want;
  for (const cr_vma& vma : now)
    if (vma.flags & CR_VMA_SPECIAL) have.push_back(&vma);
  for (const Mapping& mapping : image.mappings())
    if (mapping.flags() & CR_VMA_SPECIAL) want.push_back(&mapping);
  bool same = have.size() == want.size();
  for (std::size_t i = 0; same && i < have.size(); ++i)
    same = have[i]->end - have[i]->start == want[i]->end() - want[i]->start();
  if (!same)
    throw Error(Failure::refused, ENOEXEC,
                "the image's vdso is not like that of this kernel: restart it under the kernel it was taken on");
  for (std::size_t i = 0; i < have.size(); ++i) {
    if (have[i]->start == want[i]->start()) continue;
    refuse_changing(*have[i]);
    plan.moves.push_back({have[i]->start, want[i]->start(), have[i]->end - have[i]->start});
  }
}

}  // namespace

int protection(std::uint64_t flags) {
  return (flags & CR_VMA_READ ? PROT_READ : 0) | (flags & CR_VMA_WRITE ? PROT_WRITE : 0) |
         (flags & CR_VMA_EXEC ? PROT_EXEC : 0);
}

bool own_pkey(const Mapping& mapping) { return mapping.pkey() && (mapping.flags() & kProtection) != CR_VMA_EXEC; }

std::string mapping_name(const Mapping& mapping) {
  std::string text = "mapping " + hex(mapping.start()) + "-" + hex(mapping.end());
  const std::string& name = mapping.file().path().empty() ? mapping.name() : mapping.file().path();
  return name.empty() ? text : text + " (" + name + ")";
}

std::vector<cr_range> MappingPlan::remade(const Process& image) const {
  std::vector<cr_range> ranges;
  for (const Map& map : maps)
    if (image.mappings(map.mapping).flags() & CR_VMA_PAGES) ranges.push_back({map.start, map.end - map.start});
  return ranges;
}

bool MappingPlan::touches(std::uint64_t start, std::uint64_t size) const {
  const auto overlap = [&](std::uint64_t from, std::uint64_t to) { return from < start + size && start < to; };
  for (const Range& step : removes)
    if (overlap(step.start, step.end)) return true;
  for (const Map& step : maps)
    if (overlap(step.start, step.end)) return true;
  for (const Protect& step : protects)
    if (overlap(step.start, step.end)) return true;
  return false;
}

MappingPlan plan_mappings(std::span<const cr_vma> now, const Process& image) {
  MappingPlan plan;
  plan_special(now, image, plan);
  const std::vector<bool> anew = must_remap_whole(now, image);
  std::size_t i = 0;
  int j = 0;
  std::uint64_t at = 0;
  // Sweep over the boundaries of both lists: between two boundaries there is at most one mapping of each.
  for (;;) {
    while (i < now.size() && (now[i].end <= at || (now[i].flags & (CR_VMA_ARENA | CR_VMA_SPECIAL)))) ++i;
    while (j < image.mappings_size() &&
           (image.mappings(j).end() <= at || (image.mappings(j).flags() & CR_VMA_SPECIAL)))
      ++j;
    const cr_vma* vma = i < now.size() ? &now[i] : nullptr;
    const Mapping* mapping = j < image.mappings_size() ? &image.mappings(j) : nullptr;
    if (!vma && !mapping) break;
    const std::uint64_t edges[4] = {vma ? vma->start : kTop, mapping ? mapping->start() : kTop,
                                    vma ? vma->end : kTop, mapping ? mapping->end() : kTop};
    const std::uint64_t start = std::max(at, std::min(edges[0], edges[1]));
    std::uint64_t end = kTop;
    for (const std::uint64_t edge : edges)
      if (edge > start) end = std::min(end, edge);
    const bool is = vma && vma->start <= start, be = mapping && mapping->start() <= start;
    at = end;
    if (is && (vma->flags & CR_VMA_UFFD))
      throw Error(Failure::refused, EBUSY, where(*vma) + " is served by a userfaultfd: unregister it first");
    if (is && be && !anew[static_cast<std::size_t>(j)] && same_backing(*vma, *mapping, start)) {
      const std::uint64_t was = vma->flags, flags = mapping->flags();
      const bool executable_only = (flags & kProtection) == CR_VMA_EXEC;
      const bool key = !executable_only && vma->pkey != mapping->pkey();
      if (((was ^ flags) & kProtection) || key) {
        refuse_changing(*vma);
        extend(plan.protects, {start, end, j, key},
               !plan.protects.empty() && plan.protects.back().mapping == j && plan.protects.back().key == key);
      }
      if ((was ^ flags) & kLock) plan.locks.push_back({start, end, j});
      add_advice(plan.advices, start, end, was, flags);
      continue;
    }
    if (is) {
      refuse_changing(*vma);
      extend(plan.removes, {start, end}, true);
    }
    if (be) {
      extend(plan.maps, {start, end, j}, !plan.maps.empty() && plan.maps.back().mapping == j);
      if (mapping->flags() & kLock) plan.locks.push_back({start, end, j});
      add_advice(plan.advices, start, end, mapping->flags() & CR_VMA_DROPPABLE ? kDroppable : 0, mapping->flags());
    }
  }
  return plan;
}

std::uint64_t find_gap(std::span<const cr_vma> now, const Process& image, std::uint64_t size) {
  std::vector<MappingPlan::Range> busy;
  busy.reserve(now.size() + static_cast<std::size_t>(image.mappings_size()));
  for (const cr_vma& vma : now) busy.push_back({vma.start, vma.end});
  for (const Mapping& mapping : image.mappings()) busy.push_back({mapping.start(), mapping.end()});
  std::sort(busy.begin(), busy.end(), [](const auto& a, const auto& b) { return a.end > b.end; });
  // Search from the top down. Leave one free page on each side, so that neighbours do not merge with it.
  constexpr std::uint64_t guard = 0x1000;
  std::uint64_t top = kTop;
  for (const MappingPlan::Range& range : busy) {
    if (range.end < top && top - range.end >= size + 2 * guard) return top - guard - size;
    top = std::min(top, range.start);
  }
  if (top > kBottom && top - kBottom >= size + 2 * guard) return top - guard - size;
  throw Error(Failure::refused, ENOMEM, "its address space has no unused range of " + std::to_string(size) + " bytes");
}

std::vector<cr_range> page_scope(const Process& image) {
  std::vector<cr_range> scope;
  for (const Mapping& mapping : image.mappings()) {
    if (!(mapping.flags() & CR_VMA_PAGES)) continue;
    if (!scope.empty() && scope.back().addr + scope.back().len == mapping.start())
      scope.back().len += mapping.end() - mapping.start();
    else
      scope.push_back({mapping.start(), mapping.end() - mapping.start()});
  }
  return scope;
}

}  // namespace reprise
