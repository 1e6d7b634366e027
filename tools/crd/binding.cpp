// SPDX-License-Identifier: GPL-2.0-only
#include "crd/binding.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "job/slot_list.h"

namespace reprise::crd {

namespace {

/** @return the parts of which all processors are in @p where */
std::vector<Cpus> within(const std::vector<Cpus>& parts, const Cpus& where) {
  std::vector<Cpus> out;
  std::copy_if(parts.begin(), parts.end(), std::back_inserter(out), [&](const Cpus& part) { return (part & ~where).none(); });
  return out;
}

}  // namespace

Binder::Binder(const Topology& topology, const job::JobSpec& job, std::string host)
    : topology_(topology), job_(job), host_(std::move(host)) {}

const Binding& Binder::bind(std::uint32_t rank, std::size_t launch) {
  Binding chosen = choose(rank, launch);
  return ranks_[rank] = std::move(chosen);
}

Binding Binder::choose(std::uint32_t rank, std::size_t launch) const {
  Binding out;
  const bool threads = job_.bind_to() == "hwthread";
  const std::vector<Cpus>& units = topology_.parts(threads ? job::Mapping::HWTHREAD : job::Mapping::CORE);
  std::size_t count = std::max(1u, job_.mapping().pe());
  if (rank < static_cast<std::uint32_t>(job_.rankfile_size())) {
    const job::RankSlots& line = job_.rankfile(static_cast<int>(rank));
    Cpus wanted;
    try {
      wanted = cpus_of_slots(topology_, line.slots());
    } catch (const std::exception& error) {
      if (launch && line.host() == host_) throw std::runtime_error(line.where() + ": " + error.what());
    }
    // At a launch the user may bind several ranks to one core. A rank that comes from elsewhere must not disturb others.
    if (wanted.any() && ((launch && line.host() == host_) || (wanted & used()).none())) {
      out.cpus = wanted;
      return out;
    }
    count = std::max<std::size_t>(1, within(units, wanted).size());
  } else if (job_.bind_to() == "none" || job_.bind_to().empty()) {
    return out;
  } else if (job_.bind_to() == "package" || job_.bind_to() == "numa") {
    out.part = next_part(launch);
    const auto part = job_.bind_to() == "numa" ? job::Mapping::NUMA : job::Mapping::PACKAGE;
    out.cpus = take_part(topology_.parts(part), topology_.parts(job_.mapping().part())[out.part]);
    return out;
  } else {
    out.part = next_part(launch);
  }
  const Cpus& here = topology_.parts(job_.mapping().part())[out.part];
  std::optional<Cpus> cpus = take_free(units, here, count);
  if (!cpus && job_.mapping().overload()) cpus = take_least_used(units, here, count);
  if (!cpus) cpus = take_free(units, topology_.all(), count);
  if (cpus)
    out.cpus = *cpus;
  else
    out.why_not = "the node has no " + (count > 1 ? std::to_string(count) + " " : "") + "free " + (threads ? "hardware thread" : "core") +
                  (count > 1 ? "s" : "");
  return out;
}

std::size_t Binder::next_part(std::size_t launch) const {
  std::vector<std::size_t> ranks_on(topology_.parts(job_.mapping().part()).size());
  for (const auto& [rank, binding] : ranks_)
    if (binding.part < ranks_on.size()) ++ranks_on[binding.part];
  const std::size_t fixed = job_.mapping().per_part(), parts = ranks_on.size();
  if (fixed || (launch && !job_.mapping().span()))
    for (std::size_t part = 0; part < parts; ++part)
      if (ranks_on[part] < (fixed ? fixed : launch / parts + (part < launch % parts))) return part;
  return static_cast<std::size_t>(std::min_element(ranks_on.begin(), ranks_on.end()) - ranks_on.begin());
}

Cpus Binder::used() const {
  Cpus out;
  for (const auto& [rank, binding] : ranks_) out |= binding.cpus;
  return out;
}

std::optional<Cpus> Binder::take_free(const std::vector<Cpus>& units, const Cpus& where, std::size_t count) const {
  const Cpus taken = used();
  // All cores of one package, if possible.
  for (const auto part : {job::Mapping::NUMA, job::Mapping::PACKAGE, job::Mapping::NODE})
    for (const Cpus& near : topology_.parts(part)) {
      Cpus out;
      std::size_t found = 0;
      for (const Cpus& unit : within(units, near & where))
        if (found < count && (unit & taken).none()) out |= unit, ++found;
      if (found == count) return out;
    }
  return std::nullopt;
}

Cpus Binder::take_least_used(const std::vector<Cpus>& units, const Cpus& where, std::size_t count) const {
  std::vector<std::pair<std::size_t, Cpus>> load;
  for (const Cpus& unit : within(units, where)) {
    const auto on = std::count_if(ranks_.begin(), ranks_.end(), [&](const auto& one) { return (one.second.cpus & unit).any(); });
    load.emplace_back(on, unit);
  }
  std::stable_sort(load.begin(), load.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Cpus out;
  for (std::size_t i = 0; i < std::min(count, load.size()); ++i) out |= load[i].second;
  return out;
}

Cpus Binder::take_part(const std::vector<Cpus>& parts, const Cpus& where) const {
  std::vector<Cpus> inside = within(parts, where);
  // A NUMA domain may be larger than the package that the rank was mapped to, or the other way round.
  if (inside.empty()) std::copy_if(parts.begin(), parts.end(), std::back_inserter(inside), [&](const Cpus& part) { return (part & where).any(); });
  const auto ranks_on = [&](const Cpus& part) {
    return std::count_if(ranks_.begin(), ranks_.end(), [&](const auto& one) { return (one.second.cpus & part).any(); });
  };
  const auto cores_of = [&](const Cpus& part) { return static_cast<long>(within(topology_.parts(job::Mapping::CORE), part).size()); };
  for (const Cpus& part : inside)
    if (ranks_on(part) < cores_of(part)) return part;
  return *std::min_element(inside.begin(), inside.end(), [&](const Cpus& a, const Cpus& b) { return ranks_on(a) < ranks_on(b); });
}

Cpus cpus_of_slots(const Topology& topology, const std::string& slots) {
  const std::vector<Cpus>& packages = topology.parts(job::Mapping::PACKAGE);
  Cpus out;
  for (const job::SlotGroup& group : job::parse_slot_list(slots)) {
    if (group.package && *group.package >= packages.size())
      throw std::runtime_error("slot=" + slots + ": there is no package " + std::to_string(*group.package) + ", the node has " +
                               std::to_string(packages.size()));
    const std::vector<Cpus> cores = within(topology.parts(job::Mapping::CORE), group.package ? packages[*group.package] : topology.all());
    if (group.ranges.empty())
      for (const Cpus& core : cores) out |= core;
    for (const auto& [first, last] : group.ranges) {
      if (last >= cores.size())
        throw std::runtime_error("slot=" + slots + ": there is no core " + std::to_string(last) + ", the " +
                                 (group.package ? "package" : "node") + " has " + std::to_string(cores.size()));
      for (unsigned core = first; core <= last; ++core) out |= cores[core];
    }
  }
  return out;
}

Cpus carried_over(const Cpus& mask, const Cpus& before, const Cpus& now) {
  if (mask == before || (mask & ~before).any() || before.count() != now.count()) return now;
  Cpus out;
  std::size_t to = 0;
  for (std::size_t from = 0; from < before.size(); ++from) {
    if (!before[from]) continue;
    while (!now[to]) ++to;
    if (mask[from]) out.set(to);
    ++to;
  }
  return out;
}

std::string bind_process(pid_t pid, const Cpus& before, const Cpus& now) {
  std::string errors;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", gone)) {
    const auto tid = static_cast<pid_t>(std::stol(entry.path().filename().string()));
    cpu_set_t set;
    CPU_ZERO(&set);
    Cpus mask;
    if (::sched_getaffinity(tid, sizeof set, &set) == 0)
      for (std::size_t cpu = 0; cpu < mask.size(); ++cpu) mask[cpu] = CPU_ISSET(cpu, &set);
    const Cpus wanted = carried_over(mask, before, now);
    set = cpu_set(wanted);
    if (::sched_setaffinity(tid, sizeof set, &set) != 0 && errno != ESRCH)
      errors += (errors.empty() ? "thread " : ", thread ") + std::to_string(tid) + ": " + std::strerror(errno);
  }
  return errors;
}

}  // namespace reprise::crd
