/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief What both sides of a handshake use. All under crtcp.lock. */
#ifndef CRTCP_CONNECT_H
#define CRTCP_CONNECT_H 1

#include "crtcp.h"

enum { MILLISECOND = 1000000 };

/** Options that every connection has. */
void crtcp_tune(int fd);
/** Say a word of the handshake. @param to NULL: a stranger. @return false with errno */
bool crtcp_say_word(int fd, const crtcp_endpoint_t *to, const uint8_t *cookie, uint32_t word, uint32_t reason);
/** Read one. @return 1 it is whole, 0 not yet, -1 with errno */
int crtcp_read_word(int fd, struct crtcp_hello *word, size_t *got);
/** Compare in a time that does not tell where they differ. */
bool crtcp_same_cookie(const uint8_t *a, const uint8_t *b);
/** The handshake has to go on until then. */
void crtcp_deadline(crtcp_endpoint_t *endpoint);
/** Try again after a while. */
void crtcp_later(crtcp_endpoint_t *endpoint);
/** Messages between the two are missing: nothing can be sent before a recovery has put both back. */
void crtcp_gap(crtcp_endpoint_t *endpoint);
/** Close a guest's connection; it is freed when no event can name it any more. */
void crtcp_dismiss(crtcp_guest_t *guest);
/** Deadlines of guests. */
void crtcp_guests_clock(uint64_t now);

#endif
