/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief The memory that the ranks of a node share, and the endpoints that have lanes in it. The caller holds
 * crtcp.lock. */
#ifndef CRTCP_LANES_H
#define CRTCP_LANES_H 1

#include "base/crtcp.h"

/** Map the memory, and find out which peers have a part of it. Closes `fd`. */
void crtcp_lanes_map(int fd);
/** Find the lanes of an endpoint that was made after the memory was mapped. @return whether it has any */
bool crtcp_lanes_join(crtcp_endpoint_t *ep);
/** Open MPI removes the peer. */
void crtcp_lanes_leave(crtcp_endpoint_t *ep);
/** Unmap the memory, for an image. What the peers have written, or will write, stays in it. */
void crtcp_lanes_unmap(void);
/** After a rollback: all connections use TCP again. The memory is not mapped then. */
void crtcp_lanes_forget(void);
/** Say that this rank sleeps until somebody wakes it. @return false: no, there is something to read or write */
bool crtcp_lanes_sleep(void);
void crtcp_lanes_awake(void);

#endif
