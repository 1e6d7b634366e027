// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/memory_limits.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include <unistd.h>

#include "base/proc_dir.h"
#include "base/text.h"

namespace reprise {
namespace {

constexpr std::uint64_t kPrivateData = CR_VMA_WRITE | CR_VMA_SHARED;

bool is_data(std::uint64_t flags) { return (flags & kPrivateData) == CR_VMA_WRITE && !(flags & CR_VMA_GROWSDOWN); }

/** Does the mapping count as committed under vm.overcommit_memory=2? The kernel ignores MAP_NORESERVE in that mode. */
bool is_committed(std::uint64_t flags) { return (flags & kPrivateData) == CR_VMA_WRITE; }

/** @return the number in a /proc or cgroup file; @p otherwise if the file is missing or contains "max" */
std::uint64_t number_in(const std::string& path, std::uint64_t otherwise) {
  std::ifstream file(path);
  std::uint64_t number;
  return file >> number ? number : otherwise;
}

void look_at_cgroups(pid_t pid, SystemRoom& room) {
  const auto text = ProcDir(pid).try_read("cgroup");
  const std::size_t at = text ? text->find("0::/") : std::string::npos;
  if (at == std::string::npos) return;
  std::string path = text->substr(at + 3, text->find('\n', at) - at - 3);
  for (; path.size() > 1; path.resize(std::max<std::size_t>(path.find_last_of('/'), 1))) {
    const std::string cgroup = "/sys/fs/cgroup" + path;
    const std::uint64_t memory = number_in(cgroup + "/memory.max", UINT64_MAX);
    const std::uint64_t swap = number_in(cgroup + "/memory.swap.max", UINT64_MAX);
    const std::uint64_t limit = memory > UINT64_MAX - swap ? UINT64_MAX : memory + swap;
    if (limit < room.cgroup_limit) room.cgroup_limit = limit, room.cgroup = path;
  }
}

SystemRoom system_room(pid_t pid) {
  SystemRoom room;
  room.max_mappings = number_in("/proc/sys/vm/max_map_count", UINT64_MAX);
  if (number_in("/proc/sys/vm/overcommit_memory", 0) == 2)
    if (const auto meminfo = ProcDir("/proc").try_read("meminfo")) {
      room.commit_limit = std::strtoull(proc_field(*meminfo, "CommitLimit:").c_str(), nullptr, 10) << 10;
      room.committed = std::strtoull(proc_field(*meminfo, "Committed_AS:").c_str(), nullptr, 10) << 10;
    }
  look_at_cgroups(pid, room);
  return room;
}

std::string megabytes(std::uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MB"; }

}  // namespace

MemoryNeeds memory_needs(std::span<const cr_vma> now, const Process& image, const MappingPlan& plan) {
  MemoryNeeds needs;
  needs.mappings = static_cast<std::uint64_t>(image.mappings_size());
  for (const Mapping& mapping : image.mappings()) {
    const std::uint64_t size = mapping.end() - mapping.start();
    needs.address_space += size;
    if (is_data(mapping.flags())) needs.data += size;
    if (mapping.flags() & CR_VMA_LOCKED) needs.locked += size;
  }
  std::uint64_t freed = 0;
  for (const MappingPlan::Map& step : plan.maps)
    if (is_committed(image.mappings(step.mapping).flags())) needs.committed += step.end - step.start;
  for (const MappingPlan::Range& step : plan.removes)
    for (const cr_vma& vma : now)
      if (is_committed(vma.flags) && vma.start < step.end && step.start < vma.end)
        freed += std::min<std::uint64_t>(vma.end, step.end) - std::max<std::uint64_t>(vma.start, step.start);
  needs.committed -= std::min(needs.committed, freed);
  return needs;
}

std::string room_refusal(const MemoryNeeds& needs, const SystemRoom& room) {
  if (needs.mappings > room.max_mappings)
    return "it has " + std::to_string(needs.mappings) + " mappings, more than a process may have (" +
           std::to_string(room.max_mappings) + "): raise vm.max_map_count";
  if (needs.committed > room.commit_limit - std::min(room.commit_limit, room.committed))
    return "it needs " + megabytes(needs.committed) + " of memory more than it has, and the system's commit limit is " +
           megabytes(room.commit_limit) + ", of which " + megabytes(room.committed) +
           " are in use: raise vm.overcommit_ratio, or end other programs";
  if (needs.pages > room.cgroup_limit)
    return "it has " + megabytes(needs.pages) + " of memory, more than the cgroup " + room.cgroup + " may use (" +
           megabytes(room.cgroup_limit) + "): raise its memory.max";
  return {};
}

WiderLimits check_memory_limits(const Session& session, std::span<const cr_vma> now, const Process& image,
                                const MappingPlan& plan, std::uint64_t extra, std::uint64_t pages) {
  WiderLimits wider;
  MemoryNeeds needs = memory_needs(now, image, plan);
  needs.pages = pages;
  const std::string who = "process " + std::to_string(session.pid()) + " cannot get its memory back: ";
  if (!plan.maps.empty())
    if (const std::string why = room_refusal(needs, system_room(session.pid())); !why.empty())
      throw Error(Failure::refused, ENOMEM, who + why);
  // The current mappings still count until they are unmapped.
  std::uint64_t there = 0;
  for (const cr_vma& vma : now) there += vma.end - vma.start;
  const struct {
    int resource;
    std::uint64_t needed;
    const char* name;  // null: not refused here; restore_locks() warns about what fails
  } limits[] = {
      {RLIMIT_AS, std::max(needs.address_space, there) + extra, "of address space (ulimit -v)"},
      {RLIMIT_DATA, needs.data, "of data (ulimit -d)"},
      {RLIMIT_MEMLOCK, needs.locked, nullptr},
  };
  const bool any = ::geteuid() == 0;
  for (const auto& [resource, needed, name] : limits) {
    rlimit value;
    if (::prlimit(session.pid(), static_cast<__rlimit_resource>(resource), nullptr, &value) != 0) continue;
    if (needed <= value.rlim_cur) continue;
    if (needed > value.rlim_max && !any) {
      if (!name) continue;
      throw Error(Failure::refused, ENOMEM,
                  who + "it needs " + megabytes(needed) + " " + name + ", and the limit is " + megabytes(value.rlim_max) + ": raise it, or ask root");
    }
    wider.limits.push_back({resource, {needed, std::max<rlim_t>(needed, value.rlim_max)}});
  }
  return wider;
}

void widen_limits(const Session& session, const WiderLimits& wider) {
  // A failure here is not reported: the call that the limit prevents reports its own error.
  for (const WiderLimits::Limit& limit : wider.limits)
    ::prlimit(session.pid(), static_cast<__rlimit_resource>(limit.resource), &limit.value, nullptr);
}

}  // namespace reprise
