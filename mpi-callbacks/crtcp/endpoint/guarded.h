/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file
 * @brief The connections that the guard watches (guard/guard.h): an epoll set of its own. The caller holds crtcp.lock.
 *
 * The set has the connections only while the program computes: the kernel calls each set that has a socket for each packet,
 * which takes one hundredth of the time of a message of 0 bytes.
 */
#ifndef CRTCP_GUARDED_H
#define CRTCP_GUARDED_H 1

#include "base/crtcp.h"

/** An event's data: the peer's name, no pointer. A connection that a child of this process has inherited stays in the set
 * after this process has closed it, and its endpoint may be gone then. */
#define CRTCP_GUARDED_WAKE UINT64_MAX /**< crtcp_guarded_wake() was called */

int crtcp_guarded_open(void); /**< Make the set, without connections. @return 0, or -1 with errno */
/** Put all connections into the set, or none. If that is not possible the set stays as it is. */
void crtcp_guarded_arm(bool all);
/** After a rollback: a new set, if there was one, without connections. */
void crtcp_guarded_again(void);
void crtcp_guarded_close(void);
void crtcp_guarded_add(const crtcp_endpoint_t *endpoint); /**< it is connected now, or was; closing the connection removes it */
crtcp_endpoint_t *crtcp_guarded_find(uint64_t data); /**< whom an event is about; NULL: Open MPI has removed the peer */
void crtcp_guarded_wake(void); /**< let the guard look up. Needs no lock */

#endif
