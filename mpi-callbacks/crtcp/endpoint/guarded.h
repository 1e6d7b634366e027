/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief The connections that the guard watches (guard/guard.h): an epoll set of its own. The caller holds crtcp.lock. */
#ifndef CRTCP_GUARDED_H
#define CRTCP_GUARDED_H 1

#include "base/crtcp.h"

/** An event's data: the peer's name, no pointer. A connection that a child of this process has inherited stays in the set
 * after this process has closed it, and its endpoint may be gone then. */
#define CRTCP_GUARDED_WAKE UINT64_MAX /**< crtcp_guarded_wake() was called */

/** Make the set with all connections; if there is one already, with the old one's number. @return 0, or -1 with errno */
int crtcp_guarded_make(void);
/** After a rollback: a new set, if there was one. */
void crtcp_guarded_again(void);
void crtcp_guarded_close(void);
void crtcp_guarded_add(const crtcp_endpoint_t *endpoint); /**< it is connected now; closing the connection removes it */
crtcp_endpoint_t *crtcp_guarded_find(uint64_t data); /**< whom an event is about; NULL: Open MPI has removed the peer */
void crtcp_guarded_wake(void); /**< let the guard look up. Needs no lock */

#endif
