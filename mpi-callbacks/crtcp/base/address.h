/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Addresses of this rank, and those that a peer has published. */
#ifndef CRTCP_ADDRESS_H
#define CRTCP_ADDRESS_H 1

#include "base/crtcp.h"

/** Addresses of this node's usable interfaces, as strings "1.2.3.4:PORT", "[::1]:PORT".
 * @return number of strings, each ended by 0, in *text of *bytes, which the caller frees; -1: out of memory */
int crtcp_local_addresses(uint16_t port4, uint16_t port6, char **text, size_t *bytes);
/** Parse `count` address strings, and sort them by descending score. @return number of valid addresses, or -1 */
int crtcp_parse_addresses(const char *text, size_t bytes, unsigned count, struct crtcp_address **out);
/** An address as text, for log messages; in a static buffer per thread. */
const char *crtcp_address_text(const struct sockaddr *name);

#endif
