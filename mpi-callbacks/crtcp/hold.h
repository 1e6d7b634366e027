/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Quiescing for a checkpoint, and continuing after it. The caller holds crtcp.lock. */
#ifndef CRTCP_HOLD_H
#define CRTCP_HOLD_H 1

#include <sys/epoll.h>

#include "crtcp.h"

/** Allow sends and reads again, and schedule the connections that waited. */
void crtcp_release(void);
/** Start a thread that brings the transport back after a pause or restart. It is a separate thread because libcr's
 * callback thread must be free for the next pause if this recovery fails. @return 0 or an error number */
int crtcp_rollback_start(bool restarted);

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

/** Iterate over all endpoints. @param ep NULL: begin. @return the next endpoint, or NULL at the end */
static inline crtcp_endpoint_t *crtcp_next(crtcp_endpoint_t *ep)
{
  opal_list_item_t *item = ep ? opal_list_get_next(&ep->super) : opal_list_get_first(&crtcp.endpoints);

  if (item == opal_list_get_end(&crtcp.endpoints)) return NULL;
  return (crtcp_endpoint_t *) ((char *) item - offsetof(crtcp_endpoint_t, super));
}

#endif
