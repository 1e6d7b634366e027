/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief The epoll set of the transport. The caller holds crtcp.lock. */
#ifndef CRTCP_EVENTS_H
#define CRTCP_EVENTS_H 1

#include "base/crtcp.h"

int crtcp_epoll_new(void); /**< an empty set. @return its descriptor, or -1 with errno */
int crtcp_epoll_make(void); /**< a new set with all open sockets, with the old set's number. @return 0 or -1 */
/** Watch a descriptor for these events. @param now what it is watched for, is changed @param who is in the event */
void crtcp_watch_set(int fd, uint32_t *now, uint32_t wanted, void *who);
void crtcp_watch_endpoint(crtcp_endpoint_t *endpoint); /**< for what its state needs */
/** Accept connections, or leave them in the kernel's queue. */
void crtcp_watch_listeners(bool on);
void crtcp_alarm(uint64_t when); /**< have crtcp_clock() called at that time or earlier */

#endif
