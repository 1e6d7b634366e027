// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file To which processors of the node a rank is bound, as the job's mapping and --bind-to or its rankfile say. */
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "crd/topology.h"

namespace reprise::crd {

/** What a rank has of its node. */
struct Binding {
  std::size_t part = 0;  ///< index of the part that it was mapped to
  Cpus cpus;             ///< none: it is not bound
  std::string why_not;   ///< why a rank that should be bound is not; ""
};

/**
 * Chooses bindings, one rank after the other. As under mpirun, ranks of a launch fill one part after the other, so that
 * each part gets its share; with `span` they get the parts in turn. A rank that comes to the node in a recovery gets the part
 * with the fewest ranks. Cores that no other rank is bound to are taken; there is one exception, for `overload`. Without a free
 * core a rank is not bound: it would halve another one.
 */
class Binder {
 public:
  /** @param host name of this node in the job, for rankfiles */
  Binder(const Topology& topology, const job::JobSpec& job, std::string host);

  /** The rank is here already. */
  void has(std::uint32_t rank, const Binding& binding) { ranks_[rank] = binding; }
  /** @param launch number of ranks that start here from the beginning with this one; 0: it comes in a recovery. Throws std::runtime_error when its rankfile's cores do not exist. */
  const Binding& bind(std::uint32_t rank, std::size_t launch);

 private:
  Binding choose(std::uint32_t rank, std::size_t launch) const;
  std::size_t next_part(std::size_t launch) const;
  Cpus used() const;
  /** @return @p count of @p units, within @p where; nothing if so many are not free */
  std::optional<Cpus> take_free(const std::vector<Cpus>& units, const Cpus& where, std::size_t count) const;
  Cpus take_least_used(const std::vector<Cpus>& units, const Cpus& where, std::size_t count) const;
  /** @return the one of @p parts, within @p where, that is to get the next rank */
  Cpus take_part(const std::vector<Cpus>& parts, const Cpus& where) const;

  const Topology& topology_;
  const job::JobSpec& job_;
  std::string host_;
  std::map<std::uint32_t, Binding> ranks_;
};

/** @return the processors of a rankfile's list. Throws std::runtime_error when the node does not have them. */
Cpus cpus_of_slots(const Topology& topology, const std::string& slots);

/**
 * Bind all threads of a process that came from another node. A thread that had bound itself to some of the process's
 * processors gets the corresponding ones. @param before the process's own on that node; none: it was not bound there
 * @return errors, by thread, in words
 */
std::string bind_process(pid_t pid, const Cpus& before, const Cpus& now);

/** @return the mask for a thread: for each processor of @p mask in @p before the one at the same place in @p now */
Cpus carried_over(const Cpus& mask, const Cpus& before, const Cpus& now);

}  // namespace reprise::crd
