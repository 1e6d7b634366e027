/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Quiescing for a checkpoint, and continuing after it. The caller holds crtcp.lock. */
#ifndef CRTCP_HOLD_H
#define CRTCP_HOLD_H 1

#include "crtcp.h"

/** Allow sends and reads again, and schedule the connections that waited. */
void crtcp_release(void);
/** Start a thread that brings the transport back after a pause or restart. It is a separate thread because libcr's
 * callback thread must be free for the next pause if this recovery fails. @return 0 or an error number */
int crtcp_rollback_start(bool restarted);

/** Descriptors to wait for, with the endpoint that each belongs to (NULL: the channel). */
struct crtcp_poll {
  struct pollfd *fds;
  crtcp_endpoint_t **who;
  int count, room;
};
bool crtcp_poll_add(struct crtcp_poll *set, int fd, short events, crtcp_endpoint_t *ep);
/** poll() without holding the lock. */
void crtcp_poll_wait(struct crtcp_poll *set, int timeout_ms);
void crtcp_poll_free(struct crtcp_poll *set);

/** Iterate over all endpoints. @param ep NULL: begin. @return the next endpoint, or NULL at the end */
static inline crtcp_endpoint_t *crtcp_next(crtcp_endpoint_t *ep)
{
  opal_list_item_t *item = ep ? opal_list_get_next(&ep->super) : opal_list_get_first(&crtcp.endpoints);

  if (item == opal_list_get_end(&crtcp.endpoints)) return NULL;
  return (crtcp_endpoint_t *) ((char *) item - offsetof(crtcp_endpoint_t, super));
}

#endif
