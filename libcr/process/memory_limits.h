// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Limits of memory that may have become narrower than what an image needs. */
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "image/state.pb.h"
#include "process/mapping_plan.h"
#include "session/session.h"

namespace reprise {

/** Limits that the target needs meanwhile; its own come back with the rest of its environment. */
struct WiderLimits {
  struct Limit {
    int resource;
    rlimit value;
  };
  std::vector<Limit> limits;
};

/** What the address space of an image takes, in bytes, as the kernel accounts for it. */
struct MemoryNeeds {
  std::uint64_t address_space = 0, data = 0, locked = 0;
  std::uint64_t committed = 0;  ///< private writable memory that is mapped anew, less what is unmapped
  std::uint64_t pages = 0;      ///< with content
  std::uint64_t mappings = 0;   ///< their number
};
MemoryNeeds memory_needs(std::span<const cr_vma> now, const Process& image, const MappingPlan& plan);

/** What the system as a whole allows. */
struct SystemRoom {
  std::uint64_t commit_limit = UINT64_MAX, committed = 0;  ///< with vm.overcommit_memory=2
  std::uint64_t max_mappings = UINT64_MAX;                 ///< vm.max_map_count
  std::uint64_t cgroup_limit = UINT64_MAX;                 ///< memory and swap of the target's cgroups
  std::string cgroup;                                      ///< whose limit that is
};
/** @return what speaks against bringing the memory back, with a way out; "" if nothing surely does */
std::string room_refusal(const MemoryNeeds& needs, const SystemRoom& room);

/**
 * Find out whether the memory of @p image can be mapped at all. Throws Error (refused) where it surely cannot. Target
 * frozen, not committed.
 * @param extra  bytes of address space that restoring takes beside
 * @param pages  bytes of saved pages
 */
WiderLimits check_memory_limits(const Session& session, std::span<const cr_vma> now, const Process& image,
                                const MappingPlan& plan, std::uint64_t extra, std::uint64_t pages);

/** Behind the commit, before anything is mapped. */
void widen_limits(const Session& session, const WiderLimits& wider);

}  // namespace reprise
