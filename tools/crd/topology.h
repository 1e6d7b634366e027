// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The packages, NUMA domains and cores of this node, by hwloc. */
#include <sched.h>

#include <bitset>
#include <memory>
#include <string>
#include <vector>

#include "job/messages.pb.h"

namespace reprise::crd {

/** Processors (hardware threads) by the numbers that the kernel gives them. */
using Cpus = std::bitset<CPU_SETSIZE>;

/** The same for the system calls. */
cpu_set_t cpu_set(const Cpus& cpus);

class Topology {
 public:
  using Part = job::Mapping::Part;

  /**
   * The node's own, without the processors that this process may not use. hwloc's variables count, such as
   * HWLOC_SYNTHETIC. Throws std::runtime_error when hwloc cannot tell it.
   */
  static Topology here();
  /** Of a description for hwloc, such as "package:2 core:4 pu:2". Throws std::runtime_error when that is wrong. */
  static Topology synthetic(const std::string& description);

  /** @return the parts of a kind in hwloc's logical order, without empty ones. Where hwloc knows no cores: the processors. */
  const std::vector<Cpus>& parts(Part part) const;
  const Cpus& all() const { return parts(Part::Mapping_Part_NODE).front(); }
  job::Parts counts() const;
  /** @return in mpirun's words, such as "package[0][core:0-1]"; threads of a core that is not complete: "package[0][hwt:4]" */
  std::string words(const Cpus& cpus) const;

 private:
  struct Handle;
  explicit Topology(const Handle& hwloc);
  std::vector<Cpus> parts_[job::Mapping::Part_ARRAYSIZE];
};

}  // namespace reprise::crd
