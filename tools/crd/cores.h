// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The cores of this node, to bind ranks to them. */
#include <sched.h>

#include <cstddef>
#include <vector>

namespace reprise::crd {

/** One set of CPUs (the hardware threads) for each core that this process may use. */
std::vector<cpu_set_t> usable_cores();

/** Number of CPUs that this process may use. */
std::size_t usable_cpus();

}  // namespace reprise::crd
