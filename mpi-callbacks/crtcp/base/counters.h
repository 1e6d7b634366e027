/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief What this rank has done, for crd: see struct cr_rank_counters. Protected by crtcp.lock. */
#ifndef CRTCP_COUNTERS_H
#define CRTCP_COUNTERS_H 1

#include <stdbool.h>

#include "rank_channel.h"

extern struct cr_rank_counters crtcp_counters;

/** The calling thread has looked for something to do so often in a row, and has found nothing. Call it now and then: it
 * makes a system call. @param sleeps it sleeps between two looks */
void crtcp_waits(unsigned looks, bool sleeps);
/** Tell crd where the counters are. */
void crtcp_tell_counters(void);

#endif
