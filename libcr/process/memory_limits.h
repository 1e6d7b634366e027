// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Memory limits that may be lower now than what an image needs. */
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "image/state.pb.h"
#include "process/mapping_plan.h"
#include "session/session.h"

namespace reprise {

/** Limits to raise during the restore. restore_limits() sets the saved ones again. */
struct WiderLimits {
  struct Limit {
    int resource;
    rlimit value;
  };
  std::vector<Limit> limits;
};

/** What the address space of an image needs, in bytes, as the kernel accounts for it. */
struct MemoryNeeds {
  std::uint64_t address_space = 0, data = 0, locked = 0;
  std::uint64_t committed = 0;  ///< private writable memory to be mapped, less what is unmapped
  std::uint64_t pages = 0;      ///< bytes of saved pages
  std::uint64_t mappings = 0;   ///< number of mappings
};
/** @return the needs of @p image when @p plan is applied to the mappings @p now; pages is left 0 */
MemoryNeeds memory_needs(std::span<const cr_vma> now, const Process& image, const MappingPlan& plan);

/** System-wide and cgroup limits, in bytes. */
struct SystemRoom {
  std::uint64_t commit_limit = UINT64_MAX, committed = 0;  ///< only with vm.overcommit_memory=2
  std::uint64_t max_mappings = UINT64_MAX;                 ///< vm.max_map_count
  std::uint64_t cgroup_limit = UINT64_MAX;                 ///< lowest memory + swap limit of the target's cgroups
  std::string cgroup;                                      ///< the cgroup with that limit
};
/** @return why the memory cannot be restored, with advice; "" if no limit is certain to be exceeded */
std::string room_refusal(const MemoryNeeds& needs, const SystemRoom& room);

/**
 * Check whether the memory of @p image can be mapped. Throws Error (refused) if it certainly cannot. Target frozen, not
 * committed.
 * @param extra  additional bytes of address space that the restore itself takes
 * @param pages  bytes of saved pages
 * @return the limits to pass to widen_limits()
 */
WiderLimits check_memory_limits(const Session& session, std::span<const cr_vma> now, const Process& image,
                                const MappingPlan& plan, std::uint64_t extra, std::uint64_t pages);

/** Raise the limits. Call it after the commit, before anything is mapped. */
void widen_limits(const Session& session, const WiderLimits& wider);

}  // namespace reprise
