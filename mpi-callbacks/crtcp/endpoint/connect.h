/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Outgoing connections, and connections that break. The caller holds crtcp.lock. */
#ifndef CRTCP_CONNECT_H
#define CRTCP_CONNECT_H 1

#include "base/crtcp.h"

int crtcp_listen(void); /**< on new ports. @return 0, or -1 with errno */
/** Set the socket options of a connection. */
void crtcp_tune(int fd);
enum { CRTCP_KEEPALIVE_PROBES = 3 };
/** Seconds between two keepalive probes that are not answered */
static inline int crtcp_keepalive_interval(void)
{
  return crtcp.keepalive_s > 3 ? crtcp.keepalive_s / 3 : 1;
}
void crtcp_connect(crtcp_endpoint_t *endpoint); /**< begin to connect, unless it has begun already */
void crtcp_handshake_event(crtcp_endpoint_t *endpoint, uint32_t events);
/** Set the deadline for the next step of the handshake. */
void crtcp_deadline(crtcp_endpoint_t *endpoint);
/** Schedule the next attempt to connect; the delay doubles with each attempt, up to a second. */
void crtcp_later(crtcp_endpoint_t *endpoint);
/** An attempt of this rank or of its peer has ended without a connection, and without a failure that counts. Try again later if
 * messages wait, or if the connection broke before: messages may be lost, and only a handshake finds out. */
void crtcp_attempt_ended(crtcp_endpoint_t *endpoint);
/** An attempt has failed: try the next address later, or give up after three rounds without crd. */
void crtcp_attempt_failed(crtcp_endpoint_t *endpoint, int error);
/** Handle a broken connection: close it, report it to crd or Open MPI. @param error errno; 0: end of file */
void crtcp_lost(crtcp_endpoint_t *endpoint, int error, const char *doing);
/** The peer has failed and never comes back: fail what is sent to it, and report it to Open MPI. */
void crtcp_gone(uint32_t jobid, uint32_t vpid);
/** Report that messages to or from this peer were lost: nothing can be sent before a recovery rolls both ranks back. */
void crtcp_gap(crtcp_endpoint_t *endpoint);

#endif
