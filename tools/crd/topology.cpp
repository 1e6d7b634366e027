// SPDX-License-Identifier: GPL-2.0-only
#include "crd/topology.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <hwloc.h>

namespace reprise::crd {

cpu_set_t cpu_set(const Cpus& cpus) {
  cpu_set_t out;
  CPU_ZERO(&out);
  for (std::size_t cpu = 0; cpu < cpus.size(); ++cpu)
    if (cpus[cpu]) CPU_SET(cpu, &out);
  return out;
}

/** hwloc's own description, which is needed only while ours is made. */
struct Topology::Handle {
  Handle() {
    if (hwloc_topology_init(&topology) != 0) fail("hwloc cannot start");
    // Without caches and devices, which would take most of the time.
    hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    for (const hwloc_obj_type_t type : {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_CORE})
      hwloc_topology_set_type_filter(topology, type, HWLOC_TYPE_FILTER_KEEP_ALL);
  }
  ~Handle() { hwloc_topology_destroy(topology); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  [[noreturn]] static void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }
  hwloc_topology_t topology = nullptr;
};

namespace {

struct Bitmap {
  hwloc_bitmap_t set = hwloc_bitmap_alloc();
  Bitmap() = default;
  ~Bitmap() { hwloc_bitmap_free(set); }
  Bitmap(const Bitmap&) = delete;
  Bitmap& operator=(const Bitmap&) = delete;
};

Cpus cpus_of(hwloc_const_bitmap_t set) {
  Cpus out;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0 && cpu < CPU_SETSIZE; cpu = hwloc_bitmap_next(set, cpu))
    out.set(static_cast<std::size_t>(cpu));
  return out;
}

/** "0-1,4" */
std::string ranges(const std::vector<std::size_t>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t first = i;
    while (i + 1 < numbers.size() && numbers[i + 1] == numbers[i] + 1) ++i;
    out += (out.empty() ? "" : ",") + std::to_string(numbers[first]) + (i > first ? "-" + std::to_string(numbers[i]) : "");
  }
  return out;
}

}  // namespace

Topology::Topology(const Handle& hwloc) {
  constexpr std::pair<Part, hwloc_obj_type_t> kTypes[] = {{job::Mapping::NODE, HWLOC_OBJ_MACHINE},
                                                          {job::Mapping::PACKAGE, HWLOC_OBJ_PACKAGE},
                                                          {job::Mapping::NUMA, HWLOC_OBJ_NUMANODE},
                                                          {job::Mapping::CORE, HWLOC_OBJ_CORE},
                                                          {job::Mapping::HWTHREAD, HWLOC_OBJ_PU}};
  for (const auto& [part, type] : kTypes)
    for (hwloc_obj_t at = nullptr; (at = hwloc_get_next_obj_by_type(hwloc.topology, type, at));)
      if (const Cpus cpus = cpus_of(at->cpuset); cpus.any()) parts_[part].push_back(cpus);
  const std::vector<Cpus> whole{cpus_of(hwloc_get_root_obj(hwloc.topology)->cpuset)};
  if (whole.front().none()) throw std::runtime_error("hwloc finds no processor");
  parts_[job::Mapping::NODE] = whole;
  for (const Part part : {job::Mapping::PACKAGE, job::Mapping::NUMA})
    if (parts_[part].empty()) parts_[part] = whole;
  if (parts_[job::Mapping::CORE].empty()) parts_[job::Mapping::CORE] = parts_[job::Mapping::HWTHREAD];
}

Topology Topology::here() {
  const Handle hwloc;
  if (hwloc_topology_load(hwloc.topology) != 0) Handle::fail("hwloc cannot look at the processors");
  // What taskset or a batch system has left to this process.
  const Bitmap usable;
  if (hwloc_get_cpubind(hwloc.topology, usable.set, HWLOC_CPUBIND_PROCESS) == 0 &&
      hwloc_topology_restrict(hwloc.topology, usable.set, 0) != 0)
    Handle::fail("hwloc cannot leave out processors that may not be used");
  return Topology(hwloc);
}

Topology Topology::synthetic(const std::string& description) {
  const Handle hwloc;
  if (hwloc_topology_set_synthetic(hwloc.topology, description.c_str()) != 0 || hwloc_topology_load(hwloc.topology) != 0)
    Handle::fail("\"" + description + "\" does not describe a node for hwloc");
  return Topology(hwloc);
}

const std::vector<Cpus>& Topology::parts(Part part) const { return parts_[part]; }

job::Parts Topology::counts() const {
  job::Parts out;
  out.set_packages(static_cast<std::uint32_t>(parts(job::Mapping::PACKAGE).size()));
  out.set_numas(static_cast<std::uint32_t>(parts(job::Mapping::NUMA).size()));
  out.set_cores(static_cast<std::uint32_t>(parts(job::Mapping::CORE).size()));
  out.set_hwthreads(static_cast<std::uint32_t>(parts(job::Mapping::HWTHREAD).size()));
  return out;
}

std::string Topology::words(const Cpus& cpus) const {
  const std::vector<Cpus>&cores = parts(job::Mapping::CORE), &threads = parts(job::Mapping::HWTHREAD);
  bool whole = true;
  for (const Cpus& core : cores) whole &= (core & cpus).none() || (core & ~cpus).none();
  const std::vector<Cpus>& units = whole ? cores : threads;
  std::string out;
  for (std::size_t package = 0; package < parts(job::Mapping::PACKAGE).size(); ++package) {
    std::vector<std::size_t> numbers;
    for (std::size_t unit = 0; unit < units.size(); ++unit)
      if ((units[unit] & cpus & parts(job::Mapping::PACKAGE)[package]).any()) numbers.push_back(unit);
    if (numbers.empty()) continue;
    out += (out.empty() ? "" : " ") + ("package[" + std::to_string(package) + "]") + (whole ? "[core:" : "[hwt:") + ranges(numbers) + "]";
  }
  return out;
}

}  // namespace reprise::crd
