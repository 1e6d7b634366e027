/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Deadlines and retries of connections. The caller holds crtcp.lock. */
#ifndef CRTCP_CLOCK_H
#define CRTCP_CLOCK_H 1

#include "base/crtcp.h"

void crtcp_clock(uint64_t now); /**< handle deadlines and retries that are due */

#endif
