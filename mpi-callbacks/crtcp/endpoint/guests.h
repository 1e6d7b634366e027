/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Accepted connections until their handshake is over. The caller holds crtcp.lock. */
#ifndef CRTCP_GUESTS_H
#define CRTCP_GUESTS_H 1

#include "base/crtcp.h"

void crtcp_accept_event(int listener);
void crtcp_guest_event(crtcp_guest_t *guest);
/** Dismiss guests whose deadline has passed, free dismissed ones, and accept connections again when there is room. */
void crtcp_guests_clock(uint64_t now);
void crtcp_close_guests(void);

#endif
