/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Draining all connections. The caller holds crtcp.lock. */
#ifndef CRTCP_QUIESCE_H
#define CRTCP_QUIESCE_H 1

#include "base/crtcp.h"
#include "rank_channel.h"

/** Result of a wave for this rank. */
struct crtcp_outcome {
  enum cr_rank_prepared_state state;
  char why[200]; /**< unless it was taken */
  uint64_t begin_ns, quiesce_ns;
  uint32_t connections;
};

/** Set a result other than CR_RANK_TAKEN. @param format of the reason, with at most one unsigned @return false */
bool crtcp_refuse(struct crtcp_outcome *out, enum cr_rank_prepared_state state, const char *format, unsigned rank);
/** Send marks, and read until those of all peers have come. libpmix stands still afterwards.
 * @return false: `out` has the reason */
bool crtcp_quiesce(struct crtcp_outcome *out, uint32_t wave);

#endif
