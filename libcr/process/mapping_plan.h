// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The steps that turn the mappings of a process into those of an image. Computes only, makes no system calls. */
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
  struct Move {  ///< of a vdso or its data: only the kernel can map these
    std::uint64_t from, to, size;
  };
  struct Map {
    std::uint64_t start, end;
    int mapping;  ///< index into the image's mappings; the range may be a part of it
  };
  struct Protect {
    std::uint64_t start, end;
    int mapping;
    bool key;  ///< the protection key differs as well
  };
  struct Advise {
    std::uint64_t start, end;
    int advice;  ///< MADV_*
  };
  struct Lock {
    std::uint64_t start, end;
    int mapping;  ///< the mapping with the wanted lock flags; none set: unlock
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
  /** @return the ranges with private pages that are mapped anew: all of their content counts as changed */
  std::vector<cr_range> remade(const Process& image) const;
  /** Does the plan unmap, map or protect anything in [start, start + size)? */
  bool touches(std::uint64_t start, std::uint64_t size) const;
};

/**
 * Compare @p now (from CR_IOC_VMAS) with the mappings of @p image.
 * Throws Error (refused) naming a mapping that differs and cannot be changed.
 */
MappingPlan plan_mappings(std::span<const cr_vma> now, const Process& image);

/** @return start of a range of @p size bytes that neither @p now nor @p image uses. Throws Error (refused) if none. */
std::uint64_t find_gap(std::span<const cr_vma> now, const Process& image, std::uint64_t size);

/** Ranges of the image whose private pages are saved, adjacent ones merged: the scope of CR_IOC_RESTORE. */
std::vector<cr_range> page_scope(const Process& image);

/** @return PROT_* for CR_VMA_* @p flags */
int protection(std::uint64_t flags);
/** Did the program choose its protection key? The kernel assigns one to execute-only memory by itself. */
bool own_pkey(const Mapping& mapping);
/** Name of a mapping for messages: "mapping 7f0012340000 (/usr/lib/x.so)". */
std::string mapping_name(const Mapping& mapping);

/** Can the file behind a mapping with these CR_VMA_* @p flags be written through it, now or after mprotect()? */
inline bool is_written(std::uint64_t flags) { return (flags & CR_VMA_SHARED) && (flags & CR_VMA_MAYWRITE); }

/** Is it System V shared memory? Others find it by its key and may have attached it. */
inline bool is_sysv(const File& file) { return file.deleted() && file.path().starts_with("/SYSV"); }

}  // namespace reprise
