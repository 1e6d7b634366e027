// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file What has to be done to the mappings of a process so that they are those of an image. Pure reckoning. */
#include <cstdint>
#include <span>
#include <vector>

#include "cr.h"
#include "image/state.pb.h"

namespace reprise {

struct MappingPlan {
  struct Range {
    std::uint64_t start, end;
  };
  struct Move {  ///< of a vdso or its data, which only the kernel can make
    std::uint64_t from, to, size;
  };
  struct Map {
    std::uint64_t start, end;
    int mapping;  ///< index into the image's mappings; the range may be a part of it
  };
  struct Protect {
    std::uint64_t start, end;
    int mapping;
    bool key;  ///< its protection key differs, too
  };
  struct Advise {
    std::uint64_t start, end;
    int advice;  ///< MADV_*
  };
  struct Lock {
    std::uint64_t start, end;
    int mapping;  ///< whose lock flags count; none set: unlock
  };

  std::vector<Range> removes;
  std::vector<Move> moves;
  std::vector<Map> maps;
  std::vector<Protect> protects;
  std::vector<Advise> advices;
  std::vector<Lock> locks;

  bool empty() const {
    return removes.empty() && moves.empty() && maps.empty() && protects.empty() && advices.empty() && locks.empty();
  }
  std::size_t steps() const {
    return removes.size() + moves.size() + maps.size() + protects.size() + advices.size() + locks.size();
  }
  /** Ranges with private pages that are made anew: everything in them counts as changed. */
  std::vector<cr_range> remade(const Process& image) const;
  /** Would [start, start + size) be touched? */
  bool touches(std::uint64_t start, std::uint64_t size) const;
};

/**
 * Compare @p now (of CR_IOC_VMAS) with the mappings of @p image.
 * Throws Error (refused) naming a mapping that stands in the way and cannot be changed.
 */
MappingPlan plan_mappings(std::span<const cr_vma> now, const Process& image);

/** @return start of a range of @p size bytes that neither @p now nor @p image use */
std::uint64_t find_gap(std::span<const cr_vma> now, const Process& image, std::uint64_t size);

/** Ranges of the image whose private pages are saved, adjacent ones merged: the scope of CR_IOC_RESTORE. */
std::vector<cr_range> page_scope(const Process& image);

/** PROT_* of CR_VMA_* */
int protection(std::uint64_t flags);
/** Was its protection key the program's own choice? The kernel gives execute-only memory one by itself. */
bool own_pkey(const Mapping& mapping);
/** Name of a mapping for messages: "mapping 7f0012340000 (/usr/lib/x.so)". */
std::string mapping_name(const Mapping& mapping);

/** What is shown can be written through a mapping with these CR_VMA_* @p flags. */
inline bool is_written(std::uint64_t flags) { return (flags & CR_VMA_SHARED) && (flags & CR_VMA_MAYWRITE); }

/** System V shared memory: others find it by its key, and may have attached it. */
inline bool is_sysv(const File& file) { return file.deleted() && file.path().starts_with("/SYSV"); }

}  // namespace reprise
