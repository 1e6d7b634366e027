/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Waiting for connections, and for the end of a hold. */
#ifndef CRTCP_WAIT_H
#define CRTCP_WAIT_H 1

#include <sys/epoll.h>

#include "base/crtcp.h"

void crtcp_hold_wait(void); /**< without the lock: wait until `hold` changes, at most 10 ms */
void crtcp_let_go(void); /**< end the hold, and wake the threads that wait for that */

/** Connections to wait for, and the channel. The costs of a wait do not depend on the number of connections. */
struct crtcp_wait {
  int epoll;
  int open; /**< connections that are waited for */
  int count; /**< events of the latest wait */
  struct epoll_event events[64]; /**< data.ptr: the endpoint; NULL: the channel */
};
/** Begin with the channel only. @return false with errno */
bool crtcp_wait_begin(struct crtcp_wait *set);
/** Wait for these events of an endpoint from now on; 0: for none. @return false with errno */
bool crtcp_wait_for(struct crtcp_wait *set, crtcp_endpoint_t *ep, uint32_t events);
/** Wait without holding the lock. */
void crtcp_wait(struct crtcp_wait *set, int timeout_ms);
void crtcp_wait_end(struct crtcp_wait *set);

#endif
