// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Cores of this node, for binding ranks to them. */
#include <sched.h>

#include <cstddef>
#include <vector>

namespace reprise::crd {

/** One set of CPUs for each core that this process may use: the hardware threads of the core. */
std::vector<cpu_set_t> usable_cores();

/** CPUs that this process may use. */
std::size_t usable_cpus();

}  // namespace reprise::crd
