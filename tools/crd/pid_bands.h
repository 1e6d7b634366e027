// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Process ids by node. Each node of a job allocates process ids from a band of its own, so that the process and
 * thread ids of a rank are free on the node where it is restarted.
 */
#include <cstdint>
#include <optional>
#include <vector>

#include <sys/types.h>

namespace reprise::crd {

struct PidBand {
  int first, last;
};

/** The band of node @p node of @p nodes. The lowest quarter of the ids is left to processes that run already. */
PidBand pid_band(std::uint32_t node, std::uint32_t nodes, int pid_max);

/** Whether this process may choose ids (root, or CAP_CHECKPOINT_RESTORE). */
bool can_choose_pids();

/** Make the next ids come from the band of this node, unless they do already. @return whether they will */
bool keep_to_band(std::uint32_t node, std::uint32_t nodes);

/**
 * Processes with these ids are about to be restarted: make the kernel allocate behind them if it would come near. When a
 * job is restarted on its original nodes, the processes that restart it would otherwise take these ids.
 */
void keep_clear_of(const std::vector<pid_t>& ids);
/** @return the id behind which to allocate, instead of @p last */
int clear_of(int last, std::vector<pid_t> ids);

}  // namespace reprise::crd
