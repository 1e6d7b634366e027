// SPDX-License-Identifier: GPL-2.0-only
#include "crd/cores.h"

#include <fstream>
#include <map>
#include <string>

namespace reprise::crd {

namespace {
/** Returns an empty set if the kernel does not report the affinity. */
cpu_set_t usable() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) CPU_ZERO(&allowed);
  return allowed;
}
}  // namespace

std::size_t usable_cpus() {
  const cpu_set_t allowed = usable();
  return static_cast<std::size_t>(CPU_COUNT(&allowed));
}

std::vector<cpu_set_t> usable_cores() {
  const cpu_set_t allowed = usable();
  std::vector<cpu_set_t> cores;
  std::map<std::string, std::size_t> known;  // by the core's list of hardware threads
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::string siblings;
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
    if (!std::getline(file, siblings)) siblings = "cpu " + std::to_string(cpu);
    const auto [at, fresh] = known.emplace(siblings, cores.size());
    if (fresh) {
      cores.emplace_back();
      CPU_ZERO(&cores.back());
    }
    CPU_SET(cpu, &cores[at->second]);
  }
  return cores;
}

}  // namespace reprise::crd
