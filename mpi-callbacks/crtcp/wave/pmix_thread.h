/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Stop and resume the thread in which libpmix communicates with its server. */
#ifndef CRTCP_PMIX_THREAD_H
#define CRTCP_PMIX_THREAD_H 1

#include <stdbool.h>

/** Stop the thread: until crtcp_pmix_release() libpmix sends, receives and changes nothing.
 * @return false if the thread did not stop in time because it runs a handler of the program; it is not held then */
bool crtcp_pmix_hold(unsigned timeout_ms);
/** Resume the thread; without effect if it is not held. */
void crtcp_pmix_release(void);

#endif
