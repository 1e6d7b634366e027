/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Functions for both sides of a connection that is being made. The caller holds crtcp.lock. */
#ifndef CRTCP_CONNECT_H
#define CRTCP_CONNECT_H 1

#include "handshake.h"

enum { MILLISECOND = 1000000 };

/** Set the socket options of a connection. */
void crtcp_tune(int fd);
/** A call has failed with this error: can it be tried again, because the soft limit of descriptors was raised? */
bool crtcp_more_descriptors(int error);
/** Set the deadline for the next step of the handshake. */
void crtcp_deadline(crtcp_endpoint_t *endpoint);
/** Schedule the next attempt to connect; the delay doubles with each attempt, up to a second. */
void crtcp_later(crtcp_endpoint_t *endpoint);
/** Report that messages to or from this peer were lost: nothing can be sent before a recovery rolls both ranks back. */
void crtcp_gap(crtcp_endpoint_t *endpoint);
/** Close a guest's connection. It is freed later, when no fetched event can point to it any more. */
void crtcp_dismiss(crtcp_guest_t *guest);
/** Dismiss guests whose deadline has passed, free dismissed ones, and accept connections again when there is room. */
void crtcp_guests_clock(uint64_t now);

#endif
