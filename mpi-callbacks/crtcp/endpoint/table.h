/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief The table of peers. The caller holds crtcp.lock unless a function says otherwise. */
#ifndef CRTCP_TABLE_H
#define CRTCP_TABLE_H 1

#include "base/crtcp.h"

crtcp_endpoint_t *crtcp_find(uint32_t jobid, uint32_t vpid);
/** The endpoint of a peer, which is made if need be. Called without the lock: it may ask PMIx.
 * @return NULL if the peer does not have this transport, or without memory */
crtcp_endpoint_t *crtcp_endpoint_of(opal_proc_t *proc);
/** Ask PMIx for the peer's cookie and addresses, unless they are known. @return whether they are known now */
bool crtcp_locate(crtcp_endpoint_t *endpoint);
/** crd says where a peer listens, and in which recovery its process was started. @param addresses are owned by the table from now on;
 * NULL: where it did before */
void crtcp_heard(uint32_t jobid, uint32_t vpid, uint32_t incarnation, struct crtcp_address *addresses, int count);
/** Iterate over all endpoints. @param ep NULL: begin. @return the next endpoint, or NULL at the end */
static inline crtcp_endpoint_t *crtcp_next(crtcp_endpoint_t *ep)
{
  opal_list_item_t *item = ep ? opal_list_get_next(&ep->super) : opal_list_get_first(&crtcp.endpoints);

  if (item == opal_list_get_end(&crtcp.endpoints)) return NULL;
  return (crtcp_endpoint_t *) ((char *) item - offsetof(crtcp_endpoint_t, super));
}

/** The connection ends normally, and the counts of messages begin from 0. */
void crtcp_goodbye(crtcp_endpoint_t *endpoint);
/** Close the connection, without a report: state IDLE, receiving state dropped, queue kept. */
void crtcp_close_endpoint(crtcp_endpoint_t *endpoint);
void crtcp_endpoint_forget_receiving(crtcp_endpoint_t *endpoint); /**< drop bytes that were read but not delivered */
/** Take an endpoint out of the table. It stays until crtcp_endpoints_bury(), because fetched events point to it. */
void crtcp_endpoint_remove(crtcp_endpoint_t *endpoint);
void crtcp_endpoints_bury(void);

#endif
