/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief After a pause or a restart. The caller holds crtcp.lock. */
#ifndef CRTCP_ROLLBACK_H
#define CRTCP_ROLLBACK_H 1

#include <stdbool.h>

/** Start a thread that brings the transport back after a pause or restart. It is a separate thread because libcr's
 * callback thread must be free for the next pause if this recovery fails. @return 0 or an error number */
int crtcp_rollback_start(bool restarted);

#endif
