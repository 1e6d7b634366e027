/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Functions for both sides of a handshake. The caller holds crtcp.lock. */
#ifndef CRTCP_CONNECT_H
#define CRTCP_CONNECT_H 1

#include "crtcp.h"

enum { MILLISECOND = 1000000 };

/** Set the socket options of a connection. */
void crtcp_tune(int fd);
/** Send a word of the handshake. @param to the peer; NULL: unknown. @return false with errno */
bool crtcp_say_word(int fd, const crtcp_endpoint_t *to, const uint8_t *cookie, uint32_t word, uint32_t reason);
/** Read a word of the handshake. @return 1: complete; 0: not yet; -1 with errno */
int crtcp_read_word(int fd, struct crtcp_hello *word, size_t *got);
/** Compare in constant time, so that the time does not reveal where they differ. */
bool crtcp_same_cookie(const uint8_t *a, const uint8_t *b);
/** Set the deadline for the next step of the handshake. */
void crtcp_deadline(crtcp_endpoint_t *endpoint);
/** Schedule the next attempt to connect; the delay doubles with each attempt, up to a second. */
void crtcp_later(crtcp_endpoint_t *endpoint);
/** Report that messages to or from this peer were lost: nothing can be sent before a recovery rolls both ranks back. */
void crtcp_gap(crtcp_endpoint_t *endpoint);
/** Close a guest's connection. It is freed later, when no fetched event can point to it any more. */
void crtcp_dismiss(crtcp_guest_t *guest);
/** Dismiss guests whose deadline has passed, and free dismissed ones. */
void crtcp_guests_clock(uint64_t now);

#endif
