// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Process ids by node: each node of a job gives its processes ids from a band of its own, so that a
 * rank that is restarted on another node finds its process and thread ids free there.
 */
#include <cstdint>
#include <optional>
#include <vector>

#include <sys/types.h>

namespace reprise::crd {

struct PidBand {
  int first, last;
};

/** The band of node @p node of @p nodes. The lower quarter of the ids is left to what runs already. */
PidBand pid_band(std::uint32_t node, std::uint32_t nodes, int pid_max);

/** Whether this process may choose ids (root, or CAP_CHECKPOINT_RESTORE). */
bool can_choose_pids();

/** Have the next ids come from the band of this node, unless they do already. @return whether they will */
bool keep_to_band(std::uint32_t node, std::uint32_t nodes);

/**
 * Processes with these ids are about to be made: have those of others begin behind them, if they would come near. A job that
 * is restarted on the nodes on which it began would find them taken by what restarts it.
 */
void keep_clear_of(const std::vector<pid_t>& ids);
/** @return the id behind which to go on rather than @p last */
int clear_of(int last, std::vector<pid_t> ids);

}  // namespace reprise::crd
